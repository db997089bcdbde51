package signer

import (
	"context"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// waitServed waits until the Service is ready with a leaf that each of the roots
// alone verifies, other than the ones given.
func waitServed(t *testing.T, namespace, service, secret string, ca *pki.Authority, not ...string) served {
	t.Helper()
	var have served
	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if have, err = whatIsServed(t.Context(), namespace, secret); err != nil {
			return err
		}
		named, _ := state.LeafOf(svc)
		for _, old := range not {
			if have.fingerprint() == old {
				return fmt.Errorf("still leaf %s", old)
			}
		}
		if named != have.fingerprint() {
			return fmt.Errorf("the condition names leaf %q, the Secret has %s", named, have.fingerprint())
		}
		return nil
	})
	for _, root := range ca.Anchors {
		require.NoError(t, pki.VerifyServing(have.leaf, have.chain, root, time.Now()))
	}
	return have
}

// A new issuer of the CA costs no write until a certificate's moment has come,
// and two then.
func TestSuccessionIsPaced(t *testing.T) {
	const n = 12
	ns := newNamespace(t)
	names := api.DefaultLimits().Constraints()
	first := newGeneration(t, 1, names, nil)
	second := newGeneration(t, 2, names, first)
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	count := requests{of: ns}
	h := &held{changed: make(chan struct{})}
	h.ca.Store(first.signing())
	_, controller := startUnder(t, h, sign, api.DefaultLimits(), count.wrap)

	before := map[string]served{}
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		makeService(t, ns, name)
		before[name] = waitServed(t, ns, name, name+"-tls", first.signing())
	}
	leaves := func(want map[string]int) { // the condition of one may be seen before the cache has its Secret
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, controller.Leaves()) }, harness.Soon, harness.Tick)
	}
	leaves(map[string]int{pki.Fingerprint(first.root): n})
	count.take()

	next := second.signing(first)
	next.Reissue.From = time.Now().Add(time.Hour)
	next.Reissue.Until = next.Reissue.From.Add(time.Hour)
	h.set(next)
	makeService(t, ns, "barrier")
	waitServed(t, ns, "barrier", "barrier-tls", next)
	require.Equal(t, map[string]int{"POST secrets": 1, "PATCH services/status": 1}, count.take(), "of the barrier, and no other")
	leaves(map[string]int{pki.Fingerprint(first.root): n, pki.Fingerprint(second.root): 1})

	now := *next
	now.Reissue = pki.Window{From: time.Now().Add(time.Second), Until: time.Now().Add(3 * time.Second)}
	h.set(&now)
	for name, old := range before {
		fresh := waitServed(t, ns, name, name+"-tls", next, old.fingerprint())
		slot := now.Reissue.At(old.leaf.Raw)
		assert.False(t, pki.IssuedAt(fresh.leaf).Before(slot.Truncate(time.Second)), "%s: not before its moment", name)
		assert.Equal(t, []*x509.Certificate{second.cross}, fresh.chain)
		waitEvent(t, ns, name, fmt.Sprintf("Normal CertificateReissued: CASucceeded: Secret %q has a new certificate: signed by %q, which %q has succeeded", name+"-tls", first.root.Subject.CommonName, second.root.Subject.CommonName))
	}
	waitRest(t, ns)
	got := count.take()
	assert.Equal(t, n, got["PATCH secrets"], "%v", got)
	assert.Equal(t, n, got["PATCH services/status"], "%v", got)
	assert.Equal(t, map[string]int{pki.Fingerprint(second.root): n + 1}, controller.Leaves())
}

// Names that an older root refuses, and a cluster domain that has changed: what
// every client accepts is served all the time, and the rest when it may be.
func TestNamesThatWait(t *testing.T) {
	ns := newNamespace(t)
	limits := api.DefaultLimits()
	limits.ClusterDomain = "new.domain"
	limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "*", Suffix: "apps.example.com"}}
	both := limits.Constraints()
	both.PermittedDNS = append(both.PermittedDNS, "cluster.local")
	first := newGeneration(t, 1, api.DefaultLimits().Constraints(), nil)
	second := newGeneration(t, 2, both, first)
	former := func(ca *pki.Authority) *pki.Authority {
		ca.FormerDomains = []string{"cluster.local"}
		return ca
	}
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	h := &held{changed: make(chan struct{})}
	h.ca.Store(former(first.signing()))
	startUnder(t, h, sign, limits, nil)

	makeService(t, ns, "web", api.AnnotationExtraDNSNames, "www.apps.example.com")
	old := waitServed(t, ns, "web", "web-tls", first.signing())
	own := "web." + ns + ".svc"
	assert.ElementsMatch(t, []string{own, own + ".cluster.local"}, old.leaf.DNSNames)
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "WaitingForTrust")
	assert.Contains(t, c.Message, "waiting: "+own+".new.domain, www.apps.example.com: ")
	waitEvent(t, ns, "web", "Warning WaitingForTrust: ")

	ca := former(second.signing(first))
	h.set(ca)
	reissued := waitServed(t, ns, "web", "web-tls", ca, old.fingerprint())
	assert.ElementsMatch(t, old.leaf.DNSNames, reissued.leaf.DNSNames, "clients of the old root are still there")

	h.set(former(second.signing()))
	all := waitServed(t, ns, "web", "web-tls", second.signing(), reissued.fingerprint())
	assert.ElementsMatch(t, []string{own, own + ".cluster.local", own + ".new.domain", "www.apps.example.com"}, all.leaf.DNSNames)
	waitReady(t, ns, "web", metav1.ConditionTrue, "Issued")

	h.set(second.signing())
	last := waitServed(t, ns, "web", "web-tls", second.signing(), all.fingerprint())
	assert.ElementsMatch(t, []string{own, own + ".new.domain", "www.apps.example.com"}, last.leaf.DNSNames)
}

// A CA elsewhere that gives shorter lifetimes and dates back is asked once, also
// for a renewal that a person wants.
func TestACAElsewhereIsAskedOnce(t *testing.T) {
	ns := newNamespace(t)
	here := newGeneration(t, 1, api.DefaultLimits().Constraints(), nil).signing()
	local, err := cfssl.NewLocal()
	require.NoError(t, err)
	sign := func(ctx context.Context, _ *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		request.NotBefore = request.NotBefore.Add(-time.Hour)
		request.NotAfter = request.NotAfter.Add(-100 * time.Hour)
		return local(ctx, here, request)
	}
	elsewhere := *here
	elsewhere.Key = nil
	count := requests{of: ns}
	h := &held{changed: make(chan struct{})}
	h.ca.Store(&elsewhere)
	startUnder(t, h, sign, api.DefaultLimits(), count.wrap)

	makeService(t, ns, "web")
	first := waitServed(t, ns, "web", "web-tls", here)
	assert.Equal(t, 621*time.Hour, pki.Lifetime(first.leaf))
	waitRest(t, ns)
	require.Equal(t, map[string]int{"POST secrets": 1, "PATCH services/status": 1}, count.take())

	at := time.Now().Truncate(time.Second).Format(time.RFC3339)
	annotate(t, ns, "web", map[string]any{api.AnnotationRenewAfter: at})
	second := waitServed(t, ns, "web", "web-tls", here, first.fingerprint())
	waitRest(t, ns)
	got := count.take()
	assert.Equal(t, 1, got["PATCH secrets"], "%v", got)
	assert.Equal(t, second.secret.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion)
	recorded, err := time.Parse(time.RFC3339, second.secret.Annotations[api.AnnotationRenewedAfter])
	require.NoError(t, err)
	assert.Equal(t, at, recorded.Local().Format(time.RFC3339))

	// And once more, for what was asked for since.
	annotate(t, ns, "web", map[string]any{api.AnnotationRenewAfter: time.Now().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)})
	waitServed(t, ns, "web", "web-tls", here, second.fingerprint())
}
