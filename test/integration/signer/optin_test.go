package signer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Whoever may write Secrets in a namespace without the opt-in gets no certificate for a
// Service there: here for the API server's own, kubernetes.default.svc.
func TestNoCertificateWithoutTheOptIn(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "first")
	r.waitGood(t, ns, "first", "first-tls")
	kubernetes, err := admin.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	require.NoError(t, err)
	attack := func(name string, data map[string][]byte) {
		_, err := admin.CoreV1().Secrets(metav1.NamespaceDefault).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:            name,
				Labels:          map[string]string{api.LabelManagedBy: r.instance},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "kubernetes", UID: kubernetes.UID}},
			},
			Type: corev1.SecretTypeTLS, Data: data,
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, admin.CoreV1().Secrets(metav1.NamespaceDefault).Delete(context.Background(), name, metav1.DeleteOptions{}))
		})
	}
	empty := map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}}
	garbage := map[string][]byte{corev1.TLSCertKey: []byte("x"), corev1.TLSPrivateKeyKey: []byte("x")}
	attack("a-tls", empty)
	attack("b-tls", garbage)
	// And who may also patch the status of Services says there what the signer would say.
	forgeReady(t, metav1.NamespaceDefault, "kubernetes", state.Ready{Secret: "c-tls", Request: "1", Leaf: strings.Repeat("0a", 32)})
	attack("c-tls", empty)

	// What is made later is answered later.
	makeService(t, ns, "barrier")
	r.waitGood(t, ns, "barrier", "barrier-tls")
	waitRest(t, metav1.NamespaceDefault)
	assert.Equal(t, empty, getSecret(t, metav1.NamespaceDefault, "a-tls").Data)
	assert.Equal(t, garbage, getSecret(t, metav1.NamespaceDefault, "b-tls").Data)
	assert.Equal(t, empty, getSecret(t, metav1.NamespaceDefault, "c-tls").Data)
	said := waitReady(t, metav1.NamespaceDefault, "kubernetes", metav1.ConditionFalse, api.ReasonNotOptedIn)
	assert.Contains(t, said.Message, `Secret "c-tls": namespace "default" does not have label servingcert.dev/inject=enabled, and the Secret does not hold`)
}

// forgeReady writes a condition that only the signer should, and removes it with the test.
func forgeReady(t *testing.T, namespace, service string, said state.Ready) {
	t.Helper()
	write := func(ctx context.Context, want *state.Condition) {
		svc, err := admin.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
		require.NoError(t, err)
		patch, err := state.Patch(svc, api.ConditionReady, want, nil, time.Now())
		require.NoError(t, err)
		if patch != nil {
			_, err = admin.CoreV1().Services(namespace).Patch(ctx, service, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			require.NoError(t, err)
		}
	}
	write(t.Context(), state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: "forged"}, said))
	t.Cleanup(func() { write(context.Background(), nil) })
}
