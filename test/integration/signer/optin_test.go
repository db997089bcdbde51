package signer

import (
	"context"
	"errors"
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
	"github.com/servingcert/servingcert/test/integration/harness"
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
	// The signer has seen both once it has seen a later change of a Secret. A condition of a Service
	// that owns no Secret would be removed.
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "first-tls", metav1.DeleteOptions{}))
	r.waitGood(t, ns, "first", "first-tls")
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

// The commonest mistake is a namespace without the label. An event on the Service says so, once for
// what it asks for, and a signer that starts does not repeat what the one before it said.
func TestAForgottenLabelIsAnEvent(t *testing.T) {
	const says = "Warning NamespaceNotOptedIn: namespace "
	d := newDeployment(t)
	r := startHere(t, d, options{})
	ns, late, opted := newName(t), newName(t), newNamespace(t)
	makeNamespace(t, ns, nil)
	makeNamespace(t, late, nil)
	makeService(t, opted, "web")
	r.waitGood(t, opted, "web", "web-tls")

	makeService(t, ns, "web")
	makeService(t, late, "web")
	_, err := admin.CoreV1().Namespaces().Patch(t.Context(), late, types.MergePatchType, metadataPatch(t, "labels", map[string]any{api.LabelInject: api.InjectEnabled}), metav1.PatchOptions{})
	require.NoError(t, err)
	assert.Contains(t, waitEvent(t, ns, "web", says), `"`+ns+`" does not have label servingcert.dev/inject=enabled: the Service gets no certificate; to opt in: kubectl label namespace `+ns+` servingcert.dev/inject=enabled`)

	require.NoError(t, r.stop())

	// What is enqueued later is said later.
	again := func() {
		r = startHere(t, d, options{notices: true})
		harness.Eventually(t, func() error {
			if !strings.Contains(r.log.String(), `msg="Starting workers" controller=notices`) {
				return errors.New("it has not begun to look")
			}
			return nil
		})
	}
	again()
	annotate(t, ns, "web", map[string]any{api.AnnotationDuration: "48h"})
	makeService(t, ns, "second")
	waitEvent(t, ns, "second", says)
	require.NoError(t, r.stop())

	again()
	makeService(t, ns, "third")
	waitEvent(t, ns, "third", says)
	for service, want := range map[string]int{"web": 1, "second": 1, "third": 1} {
		assert.Len(t, eventsOn(t, ns, service), want, service)
	}
	assert.Empty(t, eventsOn(t, late, "web"), "it was labelled at once")
	assert.Empty(t, eventsOn(t, opted, "web"))
}

func eventsOn(t *testing.T, namespace, service string) []string {
	t.Helper()
	events, err := eventsOf(context.Background(), namespace, service)
	require.NoError(t, err)
	return events
}
