package signer

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// requireCombined fails the test unless the Secret holds its pair as one file too: key
// first.
func requireCombined(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	file := secret.Data[api.CombinedKey]
	require.Equal(t, slices.Concat(secret.Data[corev1.TLSPrivateKeyKey], secret.Data[corev1.TLSCertKey]), file)
	_, err := tls.X509KeyPair(file, file)
	require.NoError(t, err)
}

// waitCombined waits until the Secret holds the pair as one file, or does no longer.
func waitCombined(t *testing.T, ns, name string, want bool) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	harness.Eventually(t, func() error {
		secret = getSecret(t, ns, name)
		if _, has := secret.Data[api.CombinedKey]; has != want {
			return fmt.Errorf("%s in the Secret: %v, want %v", api.CombinedKey, has, want)
		}
		return nil
	})
	if want {
		requireCombined(t, secret)
	}
	return secret
}

// No version of the Secret has a file of another certificate.
func TestCombinedIsRenewedInTheSameWrite(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationCombinedPEM, "true")
	have := r.waitGood(t, ns, "web", "web-tls")
	ctx, cancel := context.WithTimeout(t.Context(), waitFor)
	defer cancel()
	watch, err := admin.CoreV1().Secrets(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: have.secret.ResourceVersion, FieldSelector: fields.OneTermEqualSelector("metadata.name", "web-tls").String()})
	require.NoError(t, err)
	defer watch.Stop()
	at := pki.IssuedAt(have.leaf).Add(2 * time.Second)
	annotate(t, ns, "web", map[string]any{api.AnnotationRenewAfter: at.Format(time.RFC3339)})
	renewed := r.waitGood(t, ns, "web", "web-tls", have.fingerprint())
	event, open := <-watch.ResultChan()
	require.True(t, open)
	secret := event.Object.(*corev1.Secret)
	assert.Equal(t, renewed.secret.ResourceVersion, secret.ResourceVersion, "one write")
	requireCombined(t, secret)
}

// What is asked for later costs one read more than another repair: the key is in no
// cache. With the certificate it costs none.
func TestRequestsOfCombined(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	count := requests{of: ns}
	makeService(t, ns, "web", api.AnnotationCombinedPEM, "true")
	makeService(t, ns, "later")
	r := startHere(t, d, options{wrap: count.wrap})
	r.waitGood(t, ns, "web", "web-tls")
	r.waitGood(t, ns, "later", "later-tls")
	waitRest(t, ns)
	require.Equal(t, map[string]int{"POST secrets": 2, "PATCH services/status": 2}, count.take())
	annotate(t, ns, "later", map[string]any{api.AnnotationCombinedPEM: "true"})
	waitCombined(t, ns, "later-tls", true)
	annotate(t, ns, "later", map[string]any{api.AnnotationCombinedPEM: nil})
	waitCombined(t, ns, "later-tls", false)
	waitRest(t, ns)
	require.NoError(t, r.stop())
	require.Equal(t, map[string]int{"GET secrets": 1, "PATCH secrets": 2}, count.take())
}

// A Secret that was changed since the signer saw it is not given a file of the pair
// that it had: the write fails, and the signer looks again.
func TestCombinedOfASecretThatChanges(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	count := requests{of: ns, late: "/api/v1/secrets"}
	makeService(t, ns, "web")
	r := startHere(t, d, options{wrap: count.wrap})
	first := r.waitGood(t, ns, "web", "web-tls")
	waitRest(t, ns)
	patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSPrivateKeyKey: newKey(t)}})
	annotate(t, ns, "web", map[string]any{api.AnnotationCombinedPEM: "true"})
	r.waitGood(t, ns, "web", "web-tls", first.fingerprint())
	waitCombined(t, ns, "web-tls", true)
	waitRest(t, ns)
	requireCombined(t, getSecret(t, ns, "web-tls"))
	require.NoError(t, r.stop())
}
