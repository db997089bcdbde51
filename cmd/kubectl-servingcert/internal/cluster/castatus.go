package cluster

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// CAConfigMap reads the status of the CA from the namespace of servingcert. The
// error is a NotInstalledError if it does not exist.
func (c *Cluster) CAConfigMap(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	return c.StatusOf(ctx, namespace, api.CAStatusName)
}

// StatusOf is CAConfigMap for the CA with that ConfigMap.
func (c *Cluster) StatusOf(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, NotInstalledError{namespace, name}
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA status: %w", err)
	}
	return cm, nil
}

// NotInstalledError reports that Namespace holds no CA status of the name.
type NotInstalledError struct{ Namespace, Name string }

func (e NotInstalledError) Error() string {
	if e.Name == api.ClientCAStatusName {
		return fmt.Sprintf("namespace %q has no ConfigMap %s: its signer runs without --trust-domain, or has not started yet", e.Namespace, e.Name)
	}
	return fmt.Sprintf("namespace %q has no ConfigMap %s: servingcert is not installed there, or its signer has not started yet", e.Namespace, cmp.Or(e.Name, api.CAStatusName))
}

// Trust reads the trust status from the namespace of servingcert; nil if it does
// not exist.
func (c *Cluster) Trust(ctx context.Context, namespace string) (*status.Trust, error) {
	cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, api.TrustStatusName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the trust status: %w", err)
	}
	trust := status.ParseTrust(cm.Data)
	return &trust, nil
}
