//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/keymaterial"
)

// inEtcd returns the keys of objects in etcd that contain a private key, and how much was read.
func (c *cluster) inEtcd(ctx context.Context) (holding []string, objects, size int, err error) {
	all, err := c.machine.Stored(ctx)
	for _, s := range all {
		size += len(s.Value)
		if keymaterial.Holds(s.Value) {
			holding = append(holding, string(s.Key))
		}
	}
	return holding, len(all), size, err
}

// noKeyInEtcd fails the test if an object of the namespace in etcd contains a private key.
func (c *cluster) noKeyInEtcd(t *testing.T, namespace string) {
	t.Helper()
	if c.machine == nil {
		return // etcd of the user's cluster is not accessible
	}
	holding, objects, _, err := c.inEtcd(t.Context())
	require.NoError(t, err)
	require.NotZero(t, objects)
	for _, key := range holding {
		assert.NotContains(t, key, "/"+namespace+"/", "contains a private key")
	}
}

// checkEtcd fails the test if etcd contains a private key outside of the two CAs' Secrets and of those that
// the signer, or the cert-manager, the person or the step-ca of a scene, writes. It returns how much it read.
func (c *cluster) checkEtcd(t *testing.T) (read string) {
	t.Helper()
	if c.machine == nil {
		return "etcd was not read: not accessible"
	}
	holding, objects, size, err := c.inEtcd(t.Context())
	require.NoError(t, err)
	expected := []string{storedSecret(api.DefaultNamespace, api.CASecretName), storedSecret(api.DefaultNamespace, api.ClientCASecretName)}
	for _, label := range []string{api.LabelManagedBy, labelOfCertManager} {
		var secrets corev1.SecretList
		require.NoError(t, c.admin.List(t.Context(), &secrets, client.HasLabels{label}))
		for i := range secrets.Items {
			expected = append(expected, storedSecret(secrets.Items[i].Namespace, secrets.Items[i].Name))
		}
	}
	for _, s := range byScript {
		switch err := c.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.secret}, &corev1.Secret{}); {
		case err == nil:
			expected = append(expected, storedSecret(s.namespace, s.secret))
		case !apierrors.IsNotFound(err): // its scene may be left out
			require.NoError(t, err)
		}
	}
	// Finding all of these shows that the search works.
	assert.ElementsMatch(t, expected, holding, "objects in etcd with a private key")
	return fmt.Sprintf("%d objects in etcd, %d kB, a key only in %d Secrets", objects, size>>10, len(holding))
}

// labelOfCertManager is the label of Secrets that cert-manager writes.
const labelOfCertManager = "controller.cert-manager.io/fao"

func storedSecret(namespace, name string) string {
	return strings.Join([]string{"/registry/secrets", namespace, name}, "/")
}
