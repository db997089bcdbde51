package requests

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read returns the CertificateSigningRequest with the name and UID of f from the API server, or nil if it no
// longer exists.
func Read(ctx context.Context, c certificatesclient.CertificateSigningRequestInterface, f client.Object) (*certificatesv1.CertificateSigningRequest, error) {
	object, err := c.Get(ctx, f.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read CertificateSigningRequest %s: %w", f.GetName(), err)
	case object.UID != f.GetUID():
		return nil, nil // the cache will show it
	}
	return object, nil
}

// Approve adds the condition that approves or denies the request, and returns the updated object,
// or nil if the request has changed since the decision.
func Approve(ctx context.Context, c certificatesclient.CertificateSigningRequestInterface, object *certificatesv1.CertificateSigningRequest, condition certificatesv1.CertificateSigningRequestCondition) (*certificatesv1.CertificateSigningRequest, error) {
	object = object.DeepCopy()
	object.Status.Conditions = append(object.Status.Conditions, condition)
	object, err := c.UpdateApproval(ctx, object.Name, object, metav1.UpdateOptions{})
	if written, err := Written(err); !written {
		return nil, err
	}
	return object, nil
}

// Written reports by the error of the write of an answer whether it succeeded.
func Written(err error) (written bool, _ error) {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil // deleted or changed: its event triggers a new decision
	case err != nil:
		return false, fmt.Errorf("write the answer: %w", err)
	}
	return true, nil
}

// Regarding returns the object that events about the request refer to.
func Regarding(o *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
	}
}
