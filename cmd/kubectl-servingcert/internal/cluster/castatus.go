package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/pki"
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

// Identities returns the CA that signs identities, whose status is in the namespace of servingcert; nil if there is
// none, or the user may not see it.
func (c *Cluster) Identities(ctx context.Context, namespace string) (*status.Identities, error) {
	cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, api.ClientCAStatusName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the status of the CA for identities: %w", err)
	}
	held, err := ClientRoots(ctx, c.Client)
	if apierrors.IsForbidden(err) {
		return status.IdentitiesOf(cm.Data, nil, "this user may not read it"), nil
	}
	if err != nil {
		return nil, err
	}
	return status.IdentitiesOf(cm.Data, held, ""), nil
}

// OldIdentities returns the pods with an identity that were created until a time, or notSeen: why they are unknown.
func (c *Cluster) OldIdentities(ctx context.Context, until time.Time) (old status.OldIdentities, notSeen string, err error) {
	consumers, err := c.Consumers(ctx, "", nil)
	if apierrors.IsForbidden(err) {
		return old, "pods with an identity: this user may not list pods in all namespaces", nil
	}
	return status.CountOldIdentities(consumers, until), "", err
}

// ClientRoots returns whether ClusterTrustBundle api.ClientBundleName, the only target of the CA for clients, holds
// roots, and which. It is nil if the ClusterTrustBundle does not exist.
func ClientRoots(ctx context.Context, c kubernetes.Interface) (*api.TrustStatus, error) {
	rest := c.Discovery().RESTClient()
	version, err := facts.TrustBundles(ctx, rest)
	if err != nil || version == "" {
		return nil, err
	}
	data, err := rest.Get().AbsPath("/apis/" + version + "/clustertrustbundles/" + api.ClientBundleName).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ClusterTrustBundle %s: %w", api.ClientBundleName, err)
	}
	var bundle certificatesv1beta1.ClusterTrustBundle // the field is the same in all versions
	if err := json.Unmarshal(data, &bundle); err != nil {
		return nil, fmt.Errorf("read ClusterTrustBundle %s: %w", api.ClientBundleName, err)
	}
	trust := &api.TrustStatus{Targets: 1}
	if held, err := pki.ParseBundle([]byte(bundle.Spec.TrustBundle)); err == nil {
		trust.BundleHash, trust.Holding = held.Hash(), 1
	}
	return trust, nil
}
