package signer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// A Secret that is somebody else's is left alone to the byte, the Service is
// told, and gets its own as soon as the other is gone.
func TestForeignSecretsAreLeftAlone(t *testing.T) {
	r := sharedSigner(t)
	for _, c := range []struct {
		name   string
		secret func() *corev1.Secret
	}{
		{"with our label", func() *corev1.Secret {
			return &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{api.LabelManagedBy: r.instance}},
				Type:       corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: []byte("x"), corev1.TLSPrivateKeyKey: []byte("y")},
			}
		}},
		{"of another type", func() *corev1.Secret {
			return &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("x")}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			secret := c.secret()
			secret.Name = "web-tls"
			_, err := admin.CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{})
			require.NoError(t, err)
			before, err := json.Marshal(withoutManagers(getSecret(t, ns, "web-tls")))
			require.NoError(t, err)
			makeService(t, ns, "web")
			condition := waitReady(t, ns, "web", metav1.ConditionFalse, "SecretConflict")
			assert.Contains(t, condition.Message, `Secret "web-tls" exists and is not managed by this signer: `)
			waitEvent(t, ns, "web", `Warning SecretConflict: Secret "web-tls" exists`)
			annotate(t, ns, "web", map[string]any{api.AnnotationDuration: "24h"})
			makeService(t, ns, "barrier")
			r.waitGood(t, ns, "barrier", "barrier-tls")
			after, err := json.Marshal(withoutManagers(getSecret(t, ns, "web-tls")))
			require.NoError(t, err)
			require.JSONEq(t, string(before), string(after))

			require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
			r.waitGood(t, ns, "web", "web-tls")
		})
	}
}

func withoutManagers(secret *corev1.Secret) *corev1.Secret {
	secret.ManagedFields = nil
	return secret
}

// With the garbage collector about, which may or may not be quicker.
func TestServiceMadeAgain(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	for range 5 {
		svc := makeService(t, ns, "web")
		have := r.waitGood(t, ns, "web", "web-tls")
		require.Equal(t, svc.UID, have.secret.OwnerReferences[0].UID)
		require.NoError(t, admin.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	}
	harness.Eventually(t, func() error { return secretGone(t, ns, "web-tls") }) // nobody holds on to it
}

func TestRetained(t *testing.T) {
	r := sharedSigner(t)
	for name, annotation := range map[string]any{"removed": nil, "renamed": "new-tls"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			makeService(t, ns, "web", api.AnnotationKeyAlgorithm, "ED25519", api.AnnotationDuration, "24h")
			first := r.waitGood(t, ns, "web", "web-tls")
			annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: annotation, api.AnnotationKeyAlgorithm: nil, api.AnnotationDuration: nil})
			kept := `Secret "web-tls": no longer requested; kept`
			if annotation != nil {
				r.waitGood(t, ns, "web", "new-tls")
				kept = `; kept from before, and renewed until deleted: "web-tls"`
			}
			waitMessage(t, ns, "web", kept, true)
			waitRest(t, ns)
			makeService(t, ns, "invalid", api.AnnotationDuration, "abc")
			waitEvent(t, ns, "invalid", "Warning ")
			events, err := eventsOf(t.Context(), ns, "web")
			require.NoError(t, err)
			require.Empty(t, events, "the new one is a first issue, and nothing became of the old")
			require.True(t, r.saysRetained(t, ns, "web-tls"))
			require.Equal(t, first.secret.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion)

			patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSPrivateKeyKey: ""}})
			var second served
			harness.Eventually(t, func() (err error) { second, err = whatIsServed(t.Context(), ns, "web-tls"); return err })
			assert.NotEqual(t, first.fingerprint(), second.fingerprint(), "it goes on being healed")
			assert.Equal(t, first.leaf.DNSNames, second.leaf.DNSNames)
			assert.Equal(t, first.leaf.PublicKeyAlgorithm, second.leaf.PublicKeyAlgorithm, "as it was")
			assert.Equal(t, first.leaf.NotAfter.Sub(first.leaf.NotBefore), second.leaf.NotAfter.Sub(second.leaf.NotBefore), "as it was")

			require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
			waitMessage(t, ns, "web", kept, false)
			makeService(t, ns, "barrier")
			r.waitGood(t, ns, "barrier", "barrier-tls")
			require.NoError(t, secretGone(t, ns, "web-tls"), "it is not made again")
			require.False(t, r.saysRetained(t, ns, "web-tls"))
		})
	}
}

// waitMessage waits until the Ready condition's message has the words, or has
// them no more.
func waitMessage(t *testing.T, ns, name, words string, want bool) {
	t.Helper()
	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		message := ""
		if c := api.Condition(svc, api.ConditionReady); c != nil {
			message = c.Message
		}
		if has := strings.Contains(message, words); has != want {
			return fmt.Errorf("message is %q, %q in it: want %v", message, words, want)
		}
		return nil
	})
}

func TestSharedSecret(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	names := func(services ...string) (all []string) {
		for _, s := range services {
			all = append(all, s+"."+ns+".svc", s+"."+ns+".svc.cluster.local")
		}
		return all
	}
	in := func(t *testing.T, services ...string) {
		t.Helper()
		var have served
		for _, s := range services {
			have = r.waitGood(t, ns, s, "all-tls")
		}
		harness.Eventually(t, func() (err error) {
			if have, err = whatIsServed(t.Context(), ns, "all-tls"); err != nil {
				return err
			}
			if len(have.leaf.DNSNames) != len(names(services...)) || len(have.secret.OwnerReferences) != len(services) {
				return fmt.Errorf("names %q, owners %v", have.leaf.DNSNames, have.secret.OwnerReferences)
			}
			return nil
		})
		require.ElementsMatch(t, names(services...), have.leaf.DNSNames)
	}
	share := []string{api.AnnotationSecretName, "all-tls"}
	makeService(t, ns, "a", share...)
	in(t, "a")
	makeService(t, ns, "b", share...)
	in(t, "a", "b")

	makeService(t, ns, "c", share...)
	in(t, "a", "b", "c")

	annotate(t, ns, "b", map[string]any{api.AnnotationSecretName: "b-tls"})
	r.waitGood(t, ns, "b", "b-tls")
	in(t, "a", "c")
	waitMessage(t, ns, "b", "all-tls", false)

	require.NoError(t, admin.CoreV1().Services(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	in(t, "c")
}

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
