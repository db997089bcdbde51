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

// CAConfigMap reads the status of the CA from the namespace of servingcert. The
// error is a NotInstalledError if it does not exist.
func (c *Cluster) CAConfigMap(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, api.CAStatusName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, NotInstalledError{namespace}
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA status: %w", err)
	}
	return cm, nil
}

// NotInstalledError reports that Namespace holds no CA status.
type NotInstalledError struct{ Namespace string }

func (e NotInstalledError) Error() string {
	return fmt.Sprintf("namespace %q has no ConfigMap %s: servingcert is not installed there, or its signer has not started yet", e.Namespace, api.CAStatusName)
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
