package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// Certificate reads the objects of one Service's certificate; system is the namespace of
// servingcert. Missing and forbidden objects are no error: status.Verify reports them.
func (c *Cluster) Certificate(ctx context.Context, namespace, name, system string) (status.VerifySituation, error) {
	// The host name is valid in every cluster domain.
	s := status.VerifySituation{Host: name + "." + namespace + ".svc", TrustName: namespace + "/" + api.BundleName}
	svc, err := c.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return s, err
	}
	s.Service, _ = status.ServiceOf(svc)
	s.Targets = api.ProbeTargets(svc)
	switch bundle, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, api.BundleName, metav1.GetOptions{}); {
	case err == nil:
		s.Bundle = bundle.Data
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("read the bundle: %w", err)
	}
	switch cm, err := c.CAConfigMap(ctx, system); {
	case err == nil:
		s.Published = status.ParseCA(cm.Data).BundleHash
	case apierrors.IsForbidden(err):
		s.PublishedErr = err
	default:
		return s, err
	}
	if s.NoRotator, s.RotatorUnknown, err = c.noRotator(ctx, system); err != nil {
		return s, err
	}
	if s.Service.Secret == "" {
		return s, nil
	}
	switch secret, err := c.Client.CoreV1().Secrets(namespace).Get(ctx, s.Service.Secret, metav1.GetOptions{}); {
	case err == nil:
		s.Secret = secret.Data[corev1.TLSCertKey]
	case apierrors.IsForbidden(err):
		s.SecretErr = err
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("read the Secret: %w", err)
	}
	return s, nil
}
