package signer

import (
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
