package signer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Secret that a finalizer holds is reported and left alone, and made anew when it is
// gone.
func TestASecretThatAFinalizerHolds(t *testing.T) {
	r, ns := sharedSigner(t), newNamespace(t)
	makeService(t, ns, "web")
	before := r.waitGood(t, ns, "web", "web-tls")
	patchSecret(t, ns, "web-tls", map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/keep"}}})
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
	held := getSecret(t, ns, "web-tls")

	said := waitReady(t, ns, "web", metav1.ConditionFalse, "SecretTerminating")
	assert.Contains(t, said.Message, `Secret "web-tls": it was deleted at `)
	assert.Contains(t, said.Message, `because of its finalizers ["example.com/keep"]`)
	waitEvent(t, ns, "web", "Warning SecretTerminating: ")
	waitRest(t, ns)
	assert.Equal(t, held.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion, "nothing is written to it")

	patchSecret(t, ns, "web-tls", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	after := r.waitGood(t, ns, "web", "web-tls", before.fingerprint())
	assert.NotEqual(t, before.fingerprint(), after.fingerprint())
}
