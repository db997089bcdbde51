package signer

import (
	"crypto"
	"crypto/tls"
	"fmt"
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// dataOf returns the data of a Secret with the pair.
func dataOf(t *testing.T, pair tls.Certificate, ca rotatortest.CA) map[string][]byte {
	t.Helper()
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	return map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(pair.Leaf), corev1.TLSPrivateKeyKey: key, api.BundleKey: pki.EncodeCertificates(ca.Root),
	}
}

// waitFollowed waits until condition Ready of the Service has the reason and the leaf.
func waitFollowed(t *testing.T, namespace, service, reason string, pair tls.Certificate) {
	t.Helper()
	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := api.Condition(svc, api.ConditionReady)
		if leaf, _ := state.LeafOf(svc); c == nil || c.Reason != reason || leaf != pki.Fingerprint(pair.Leaf) {
			return fmt.Errorf("condition is %v, want %s and leaf %s", c, reason, pki.Fingerprint(pair.Leaf))
		}
		return nil
	})
}

// TestSecretsOfOtherIssuers are followed, whatever their issuer does to them, and never written.
func TestSecretsOfOtherIssuers(t *testing.T) {
	r, ns := sharedSigner(t), newNamespace(t)
	ca := rotatortest.NewCA(t, 1, time.Now()).Renamed(t)
	name := "web." + ns + ".svc"
	makeService(t, ns, "web", api.AnnotationIssuer, string(api.IssuerExternal))
	waitReady(t, ns, "web", metav1.ConditionFalse, "SecretMissing")

	first := ca.Issue(t, time.Now(), name)
	_, err := admin.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web-tls"}, Data: dataOf(t, first, ca)}, metav1.CreateOptions{})
	require.NoError(t, err, "of type Opaque")
	waitFollowed(t, ns, "web", "External", first)
	assert.Contains(t, waitReady(t, ns, "web", metav1.ConditionTrue, "External").Message, "clients verify it with ca.crt of the Secret")

	second := ca.Issue(t, time.Now(), name)
	data := dataOf(t, second, ca)
	patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSPrivateKeyKey: data[corev1.TLSPrivateKeyKey]}})
	patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSCertKey: data[corev1.TLSCertKey]}})
	waitFollowed(t, ns, "web", "External", second)
	events, err := eventsOf(t.Context(), ns, "web")
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprint(events), "KeyMismatch", "the two writes were one change")

	foreign := ca.Issue(t, time.Now(), "api.example.com")
	patchSecret(t, ns, "web-tls", map[string]any{"data": dataOf(t, foreign, ca)})
	waitFollowed(t, ns, "web", "NamesMissing", foreign)
	waitEvent(t, ns, "web", "Warning NamesMissing")
	annotate(t, ns, "web", map[string]any{api.AnnotationExtraDNSNames: "api.example.com"})
	waitFollowed(t, ns, "web", "External", foreign)

	becomes := func(metric string, want int64) { // the signer sets its metrics after the condition
		harness.Eventually(t, func() error {
			if got := r.value(t, metric, "namespace", ns, "secret", "web-tls"); int64(got) != want {
				return fmt.Errorf("%s is %.0f, want %d", metric, got, want)
			}
			return nil
		})
	}
	becomes("servingcert_certificate_not_after_timestamp_seconds", foreign.Leaf.NotAfter.Unix())
	written := getSecret(t, ns, "web-tls")
	assert.Empty(t, written.Labels)
	assert.Empty(t, written.OwnerReferences)
	assert.Len(t, written.Data, 3)
	before := time.Now()
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
	waitReady(t, ns, "web", metav1.ConditionFalse, "SecretMissing")
	waitRest(t, ns)
	require.NoError(t, secretGone(t, ns, "web-tls"))
	const renewBy = "servingcert_external_certificate_renew_by_timestamp_seconds"
	since := r.value(t, renewBy, "namespace", ns, "secret", "web-tls")
	assert.GreaterOrEqual(t, since, float64(before.Unix()-1), "since when it is missing")
	assert.LessOrEqual(t, since, float64(time.Now().Unix()), "since when it is missing")
	create := func(name string, pair tls.Certificate) *corev1.Secret {
		created, err := admin.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: dataOf(t, pair, ca)}, metav1.CreateOptions{})
		require.NoError(t, err)
		return created
	}
	due := func(pair tls.Certificate) int64 {
		return pki.RenewBy(pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore), pair.Leaf.NotAfter).Unix()
	}
	again := create("web-tls", foreign)
	waitFollowed(t, ns, "web", "External", foreign)
	becomes(renewBy, due(foreign)) // it is back

	renamed := ca.Issue(t, time.Now(), "api.example.com")
	create("other-tls", renamed)
	annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: "other-tls"})
	waitFollowed(t, ns, "web", "External", renamed)
	waitRest(t, ns)
	assert.InDelta(t, due(renamed), r.value(t, renewBy, "namespace", ns, "secret", "other-tls"), 0)
	assert.Zero(t, r.value(t, renewBy, "namespace", ns, "secret", "web-tls"), "no Service names it")
	assert.Equal(t, again, getSecret(t, ns, "web-tls"))

	require.NoError(t, admin.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	waitRest(t, ns)
	assert.Zero(t, r.value(t, renewBy, "namespace", ns, "secret", "other-tls"), "no alert about what nothing requests")
}

// TestASecretThatChangesAllTheTime costs a read, and a write of the condition, ever less often. What it has in the end is reported.
func TestASecretThatChangesAllTheTime(t *testing.T) {
	ns := newNamespace(t)
	count := requests{of: ns}
	startHere(t, newDeployment(t), options{wrap: count.wrap})
	ca := rotatortest.NewCA(t, 1, time.Now()).Renamed(t)
	last := ca.Issue(t, time.Now(), "web."+ns+".svc")
	_, err := admin.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web-tls"}, Data: dataOf(t, last, ca)}, metav1.CreateOptions{})
	require.NoError(t, err)
	makeService(t, ns, "web", api.AnnotationIssuer, string(api.IssuerExternal))
	waitFollowed(t, ns, "web", "External", last)
	begun := time.Now()
	changes := 0
	for ; time.Since(begun) < 8*time.Second; changes++ {
		last = ca.Issue(t, time.Now(), "web."+ns+".svc")
		patchSecret(t, ns, "web-tls", map[string]any{"data": dataOf(t, last, ca)})
	}
	waitFollowed(t, ns, "web", "External", last)
	// The first read, one after a second, and then after twice the time each.
	most := 2 + bits.Len(uint(time.Since(begun)/time.Second))
	got := count.take()
	t.Logf("%d changes in %s: %v", changes, time.Since(begun), got)
	assert.LessOrEqual(t, got["GET secrets"], most)
	assert.LessOrEqual(t, got["PATCH services/status"], most)
	delete(got, "GET secrets")
	delete(got, "PATCH services/status")
	assert.Empty(t, got)
}

// TestAnotherIssuerTakesOver: the Secret is kept and renewed until the other issuer writes it. Then the
// signer removes its marks, so that the Secret outlives the Service, and leaves it alone.
func TestAnotherIssuerTakesOver(t *testing.T) {
	r, ns := sharedSigner(t), newNamespace(t)
	makeService(t, ns, "web")
	r.waitGood(t, ns, "web", "web-tls")
	annotate(t, ns, "web", map[string]any{api.AnnotationIssuer: string(api.IssuerExternal)})
	waitMessage(t, ns, "web", "of servingcert until its new issuer writes it", true)
	ca := rotatortest.NewCA(t, 1, time.Now()).Renamed(t)
	theirs := ca.Issue(t, time.Now(), "web."+ns+".svc")
	data := dataOf(t, theirs, ca)
	patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSPrivateKeyKey: data[corev1.TLSPrivateKeyKey]}})
	waitReady(t, ns, "web", metav1.ConditionFalse, "KeyMismatch") // it is not repaired any more
	patchSecret(t, ns, "web-tls", map[string]any{"data": data})
	waitFollowed(t, ns, "web", "External", theirs)
	waitRest(t, ns)
	assert.Equal(t, pki.EncodeCertificates(theirs.Leaf), getSecret(t, ns, "web-tls").Data[corev1.TLSCertKey])

	harness.Eventually(t, func() error {
		if s := getSecret(t, ns, "web-tls"); len(s.Labels)+len(s.Annotations)+len(s.OwnerReferences) > 0 {
			return fmt.Errorf("marks are left: %v", s.ObjectMeta)
		}
		return nil
	})
	waitFollowed(t, ns, "web", "External", theirs)

	// It is not taken back: the other issuer may write it again.
	annotate(t, ns, "web", map[string]any{api.AnnotationIssuer: nil})
	waitReady(t, ns, "web", metav1.ConditionFalse, "SecretConflict")

	annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: "own-tls"})
	r.waitGood(t, ns, "web", "own-tls")
	assert.Equal(t, pki.EncodeCertificates(theirs.Leaf), getSecret(t, ns, "web-tls").Data[corev1.TLSCertKey])
}

// TestCertManagerWritesASecretOfTheSigner, in the wrong order: the two do not write it in turn.
func TestCertManagerWritesASecretOfTheSigner(t *testing.T) {
	r, ns := sharedSigner(t), newNamespace(t)
	makeService(t, ns, "web")
	r.waitGood(t, ns, "web", "web-tls")
	ca := rotatortest.NewCA(t, 1, time.Now()).Renamed(t)
	theirs := ca.Issue(t, time.Now(), "web."+ns+".svc")
	patchSecret(t, ns, "web-tls", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{api.AnnotationCertificateName: "web"}}, "data": dataOf(t, theirs, ca),
	})
	said := waitReady(t, ns, "web", metav1.ConditionFalse, "SecretConflict")
	assert.Contains(t, said.Message, `Certificate "web" writes it`)
	waitRest(t, ns)
	secret := getSecret(t, ns, "web-tls")
	assert.Equal(t, pki.EncodeCertificates(theirs.Leaf), secret.Data[corev1.TLSCertKey])
	assert.NotEmpty(t, secret.OwnerReferences, "so that it is repaired without the annotation")

	annotate(t, ns, "web", map[string]any{api.AnnotationIssuer: string(api.IssuerExternal)})
	waitFollowed(t, ns, "web", "External", theirs)
	harness.Eventually(t, func() error {
		if s := getSecret(t, ns, "web-tls"); len(s.OwnerReferences) > 0 {
			return fmt.Errorf("Kubernetes would delete it with the Service: %v", s.OwnerReferences)
		}
		return nil
	})
}
