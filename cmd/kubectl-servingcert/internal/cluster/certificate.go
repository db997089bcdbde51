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
	s.Clients, _, _ = api.Clients(svc)
	s.Public = publicRoots()
	switch bundle, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, api.BundleName, metav1.GetOptions{}); {
	case err == nil:
		s.Bundle = bundle.Data
	case apierrors.IsForbidden(err):
		s.BundleErr = err
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
		s.Secret, s.SecretCA = secret.Data[corev1.TLSCertKey], rootsIn(secret.Data[api.BundleKey])
	case apierrors.IsForbidden(err):
		s.SecretErr = err
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("read the Secret: %w", err)
	}
	return s, nil
}

// RenewedBy returns the command that renews the Secret of another issuer, with what comes before it;
// "" if it is not known.
func (c *Cluster) RenewedBy(ctx context.Context, s status.Service) string {
	if !s.External {
		return ""
	}
	secret, err := c.Client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Secret, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	name := secret.Annotations[api.AnnotationCertificateName]
	if command, ok := api.Command([]string{name}, "cmctl", "renew", "-n", s.Namespace, name); ok {
		return ": " + command
	}
	return ""
}
