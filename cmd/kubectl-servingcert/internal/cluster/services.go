package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Services returns the Services of a namespace ("": of all) that have or request a
// certificate.
func (c *Cluster) Services(ctx context.Context, namespace string) ([]status.Service, error) {
	return c.SelectedServices(ctx, namespace, "")
}

// SignedServices is Services of all namespaces without those whose certificates another issuer renews.
func (c *Cluster) SignedServices(ctx context.Context) ([]status.Service, error) {
	all, err := c.Services(ctx, "")
	return slices.DeleteFunc(all, status.Service.Followed), err
}

// SelectedServices is Services with a label selector; "" selects all.
func (c *Cluster) SelectedServices(ctx context.Context, namespace, selector string) ([]status.Service, error) {
	var found []status.Service
	err := c.eachService(ctx, namespace, selector, func(svc *corev1.Service) {
		if s, ok := status.ServiceOf(svc); ok {
			found = append(found, s)
		}
	})
	return found, err
}

func (c *Cluster) eachService(ctx context.Context, namespace, selector string, visit func(*corev1.Service)) error {
	if err := pages.Each(ctx, c.Client.CoreV1().Services(namespace), metav1.ListOptions{LabelSelector: selector}, visit); err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	return nil
}

// AddOptIn sets NotOptedIn of Services without a condition, as far as the user may read
// Namespaces.
func (c *Cluster) AddOptIn(ctx context.Context, services []status.Service) error {
	notOptedIn := map[string]bool{}
	for i, s := range services {
		if s.Ready != "" {
			continue
		}
		without, known := notOptedIn[s.Namespace]
		if !known {
			ns, err := c.Client.CoreV1().Namespaces().Get(ctx, s.Namespace, metav1.GetOptions{})
			if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("read Namespace %s: %w", s.Namespace, err)
			}
			without = err == nil && ns.Labels[api.LabelInject] != api.InjectEnabled
			notOptedIn[s.Namespace] = without
		}
		services[i].NotOptedIn = without
	}
	return nil
}

// AddTimes sets the times of the Services' certificates, as far as the user may read
// their Secrets. Keys are read and dropped. Secrets of other issuers are read one by one.
func (c *Cluster) AddTimes(ctx context.Context, namespace string, services []status.Service) error {
	type key struct{ namespace, name string }
	wanted := map[key][]*status.Service{}
	var external []*status.Service
	for i := range services {
		if services[i].External {
			external = append(external, &services[i])
			continue
		}
		k := key{services[i].Namespace, services[i].Secret}
		wanted[k] = append(wanted[k], &services[i])
	}
	managed := metav1.ListOptions{LabelSelector: api.LabelManagedBy}
	err := pages.Each(ctx, c.Client.CoreV1().Secrets(namespace), managed, func(secret *corev1.Secret) {
		for _, s := range wanted[key{secret.Namespace, secret.Name}] {
			setTimes(s, secret)
		}
	})
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("list Secrets: %w", err)
	}
	errs := make([]error, len(external))
	atOnce(maxConcurrent, len(external), func(i int) { errs[i] = c.AddTimesOf(ctx, external[i]) })
	return cmp.Or(errs...)
}

// AddTimesOf is AddTimes for one Service.
func (c *Cluster) AddTimesOf(ctx context.Context, s *status.Service) error {
	if s.Secret == "" {
		return nil
	}
	secret, err := c.Client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Secret, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the Secret: %w", err)
	case secret.Labels[api.LabelManagedBy] == "" && !s.External:
		return nil // not managed by servingcert
	}
	setTimes(s, secret)
	return nil
}

// setTimes sets the times of the certificate in the Secret. The condition reports a damaged Secret.
func setTimes(s *status.Service, secret *corev1.Secret) {
	certs, err := pki.ParseCertificates(pki.CertificateBlocks(secret.Data[corev1.TLSCertKey]))
	if err != nil {
		return
	}
	leaf := certs[0]
	notBefore, notAfter, renewAt := leaf.NotBefore, leaf.NotAfter, pki.RenewAt(leaf).Truncate(time.Second)
	s.NotBefore, s.NotAfter, s.RenewAt = &notBefore, &notAfter, &renewAt
	if s.Followed() {
		s.RenewAt = nil // its issuer knows
	}
}
