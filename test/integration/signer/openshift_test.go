package signer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func openShiftService(t *testing.T, namespace, name, word, secret string) *corev1.Service {
	t.Helper()
	svc := newService(name, word, secret)
	delete(svc.Annotations, api.AnnotationSecretName)
	svc, err := admin.CoreV1().Services(namespace).Create(t.Context(), svc, metav1.CreateOptions{})
	require.NoError(t, err)
	return svc
}

// saysOnly waits until the Service has exactly these annotations beside the one
// that asks.
func saysOnly(t *testing.T, namespace, name, word string, want map[string]string) {
	t.Helper()
	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := svc.Annotations
		delete(got, word)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("annotations of %s are %q, want %q", name, got, want)
		}
		return nil
	})
}

// OpenShift's words in a namespace that nobody has labelled: what service-ca
// writes is written, in as many requests as our own words take.
func TestOpenShiftWords(t *testing.T) {
	ns := newName(t)
	makeNamespace(t, ns, nil)
	count := requests{of: ns}
	r := startHere(t, newDeployment(t), options{wrap: count.wrap, openShift: true})
	svc := openShiftService(t, ns, "metrics", api.OpenShiftSecretName, "metrics-tls")
	have := r.waitGood(t, ns, "metrics", "metrics-tls")
	waitRest(t, ns)
	require.Equal(t, map[string]int{"POST secrets": 1, "PATCH services/status": 1}, count.take())

	by := have.leaf.Issuer.CommonName
	signed := map[string]string{api.OpenShiftSignedBy: by, api.OpenShiftSignedByAlpha: by}
	saysOnly(t, ns, "metrics", api.OpenShiftSecretName, signed)
	marks := func(s served) map[string]string {
		ends := s.leaf.NotAfter.Format(time.RFC3339)
		return map[string]string{
			api.OpenShiftServiceName: "metrics", api.OpenShiftServiceUID: string(svc.UID), api.OpenShiftExpiry: ends, api.OpenShiftExpiryAlpha: ends,
		}
	}
	assert.Equal(t, marks(have), have.secret.Annotations)
	assert.Equal(t, corev1.SecretTypeTLS, have.secret.Type)
	assert.Len(t, have.secret.Data, 2)

	// A renewal: everything in one write each.
	annotate(t, ns, "metrics", map[string]any{api.AnnotationDuration: "24h"})
	renewed := r.waitGood(t, ns, "metrics", "metrics-tls", have.fingerprint())
	assert.Equal(t, 24*time.Hour, pki.Lifetime(renewed.leaf))
	assert.Equal(t, marks(renewed), renewed.secret.Annotations)
	annotate(t, ns, "metrics", map[string]any{api.AnnotationDuration: nil})
	renewed = r.waitGood(t, ns, "metrics", "metrics-tls", have.fingerprint(), renewed.fingerprint())

	// What somebody writes over is put right, with the certificate as it is.
	patchSecret(t, ns, "metrics-tls", map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.OpenShiftExpiry: "never", api.OpenShiftServiceUID: nil}}})
	harness.Eventually(t, func() error {
		if got := getSecret(t, ns, "metrics-tls").Annotations; fmt.Sprint(got) != fmt.Sprint(marks(renewed)) {
			return fmt.Errorf("annotations are %q", got)
		}
		return nil
	})
	assert.Equal(t, renewed.fingerprint(), r.waitGood(t, ns, "metrics", "metrics-tls").fingerprint())
	annotate(t, ns, "metrics", map[string]any{api.OpenShiftError: "of long ago", api.OpenShiftErrorNum: "10"})
	saysOnly(t, ns, "metrics", api.OpenShiftSecretName, signed)
	waitRest(t, ns)
}

// Failures are told of as service-ca does, and nobody gives up.
func TestOpenShiftErrors(t *testing.T) {
	ns := newName(t)
	makeNamespace(t, ns, nil)
	r := startHere(t, newDeployment(t), options{openShift: true})
	taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "metrics-tls"}, StringData: map[string]string{"mine": "yes"}}
	_, err := admin.CoreV1().Secrets(ns).Create(t.Context(), taken, metav1.CreateOptions{})
	require.NoError(t, err)
	openShiftService(t, ns, "metrics", api.OpenShiftSecretNameAlpha, "metrics-tls")
	c := waitReady(t, ns, "metrics", metav1.ConditionFalse, "SecretConflict")
	failing := func(message, n string) map[string]string {
		return map[string]string{api.OpenShiftError: message, api.OpenShiftErrorAlpha: message, api.OpenShiftErrorNum: n, api.OpenShiftErrorNumAlpha: n}
	}
	saysOnly(t, ns, "metrics", api.OpenShiftSecretNameAlpha, failing(c.Message, "1"))

	annotate(t, ns, "metrics", map[string]any{api.OpenShiftSecretNameAlpha: "A_B"})
	c = waitReady(t, ns, "metrics", metav1.ConditionFalse, "InvalidAnnotation")
	assert.Contains(t, c.Message, api.OpenShiftSecretNameAlpha+`: "A_B": `)
	saysOnly(t, ns, "metrics", api.OpenShiftSecretNameAlpha, failing(c.Message, "2"))

	annotate(t, ns, "metrics", map[string]any{api.OpenShiftErrorNum: "10", api.OpenShiftErrorNumAlpha: "10"})
	annotate(t, ns, "metrics", map[string]any{api.OpenShiftSecretNameAlpha: "metrics-tls"})
	waitReady(t, ns, "metrics", metav1.ConditionFalse, "SecretConflict")
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "metrics-tls", metav1.DeleteOptions{}))
	have := r.waitGood(t, ns, "metrics", "metrics-tls")
	by := have.leaf.Issuer.CommonName
	saysOnly(t, ns, "metrics", api.OpenShiftSecretNameAlpha, map[string]string{api.OpenShiftSignedBy: by, api.OpenShiftSignedByAlpha: by})
	assert.Equal(t, "metrics", have.secret.Annotations[api.OpenShiftServiceNameAlpha])
}

func TestWithoutTheFlagOpenShiftWordsMeanNothing(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	openShiftService(t, ns, "metrics", api.OpenShiftSecretName, "metrics-tls")
	openShiftService(t, ns, "alpha", api.OpenShiftSecretNameAlpha, "alpha-tls")
	makeService(t, ns, "barrier", api.OpenShiftSecretName, "another-tls")
	have := r.waitGood(t, ns, "barrier", "barrier-tls")
	assert.Empty(t, have.secret.Annotations)
	for _, name := range []string{"metrics", "alpha", "another"} {
		require.NoError(t, secretGone(t, ns, name+"-tls"))
	}
	saysOnly(t, ns, "metrics", api.OpenShiftSecretName, map[string]string{})
}
