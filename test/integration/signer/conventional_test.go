package signer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The signer says which opted-in namespaces have a Secret serving-cert that can be
// served from and that no signer manages.
func TestWhereConventionalSecretsAre(t *testing.T) {
	r := startHere(t, newDeployment(t), options{conventional: true})
	secret := func(namespace, name string, kind corev1.SecretType) {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil}}
		_, err := admin.CoreV1().Secrets(namespace).Create(t.Context(), made, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	says := func(namespaces ...string) {
		t.Helper()
		want := api.FormatNamespaces(namespaces)
		harness.Eventually(t, func() error {
			cm, err := admin.CoreV1().ConfigMaps(r.namespace).Get(t.Context(), api.ConventionalStatusName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := cm.Data[api.ConventionalNamespacesKey]; got != want || len(cm.Data) != 1 {
				return fmt.Errorf("it says %q, want %q", cm.Data, want)
			}
			return nil
		})
	}
	a, opaque, another, managed := newNamespace(t), newNamespace(t), newNamespace(t), newNamespace(t)
	b := newName(t)
	makeNamespace(t, b, nil)
	secret(opaque, api.ConventionalSecretName, corev1.SecretTypeOpaque)
	secret(another, "another", corev1.SecretTypeTLS)
	secret(b, api.ConventionalSecretName, corev1.SecretTypeTLS)
	secret(managed, api.ConventionalSecretName, corev1.SecretTypeTLS)
	manage := func(value any) {
		patchSecret(t, managed, api.ConventionalSecretName, map[string]any{"metadata": map[string]any{"labels": map[string]any{api.LabelManagedBy: value}}})
	}
	says(managed)
	manage("another")
	secret(a, api.ConventionalSecretName, corev1.SecretTypeTLS)
	says(a)
	manage(nil)
	says(a, managed)
	manage("another")
	says(a)

	label := func(value any) {
		_, err := admin.CoreV1().Namespaces().Patch(t.Context(), b, types.MergePatchType, metadataPatch(t, "labels", map[string]any{api.LabelInject: value}), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	label(api.InjectEnabled)
	says(a, b)
	require.NoError(t, admin.CoreV1().Secrets(a).Delete(t.Context(), api.ConventionalSecretName, metav1.DeleteOptions{}))
	says(b)
	label(nil)
	says()

	// After a restart too, with what happened in between.
	require.NoError(t, r.stop())
	label(api.InjectEnabled)
	startHere(t, r.deployment, options{conventional: true})
	says(b)
}
