package signer

import (
	"crypto"
	"crypto/x509"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// held is a CA that the test holds in its hand: the signer is told what it is,
// and that it is another now.
type held struct {
	ca      atomic.Pointer[pki.Authority]
	changed chan struct{}
}

func (h *held) set(ca *pki.Authority) {
	h.ca.Store(ca)
	h.changed <- struct{}{}
}

// heldWorkers is how many Secrets such a signer works on at a time.
const heldWorkers = 4

// startUnder runs a signer in this process under a CA of the test's.
func startUnder(t *testing.T, h *held, sign issue.Sign, limits api.Limits, wrap func(http.RoundTripper) http.RoundTripper) (*running, *signercontroller.Controller) {
	t.Helper()
	cfg := plane.AdminConfig()
	if wrap != nil {
		cfg.Wrap(wrap)
	}
	return startAs(t, cfg, h, sign, limits)
}

// startAs runs such a signer as the user of cfg.
func startAs(t *testing.T, cfg *rest.Config, h *held, sign issue.Sign, limits api.Limits) (*running, *signercontroller.Controller) {
	t.Helper()
	d := newDeployment(t)
	r := &running{deployment: d, log: &harness.Log{}, clock: &harness.Clock{}, registry: prometheus.NewRegistry()}
	mgr, err := newManager(cfg, d, r.log)
	require.NoError(t, err)
	issuer, err := signercontroller.Setup(mgr, signercontroller.Config{
		Instance: d.instance, Limits: limits, Workers: heldWorkers, Sign: sign,
		Authority:        func() (*pki.Authority, error) { return h.ca.Load(), nil },
		AuthorityChanged: h.changed, Clock: r.clock.Now, Registerer: r.registry,
	})
	require.NoError(t, err)
	r.stop = harness.RunManager(mgr)
	t.Cleanup(func() { finish(t, r) })
	return r, issuer
}

// generation is one of a CA.
type generation struct {
	key   crypto.Signer
	root  *x509.Certificate
	cross *x509.Certificate // its key, signed by the one before
}

func newGeneration(t *testing.T, n int, constraints pki.Constraints, before *generation) *generation {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	now := time.Now()
	root, err := pki.NewRoot(key, n, constraints, now.Add(-time.Hour), now.Add(10000*time.Hour))
	require.NoError(t, err)
	g := &generation{key: key, root: root}
	if before != nil {
		g.cross, err = pki.NewCross(root, before.root, before.key, now.Add(-time.Hour))
		require.NoError(t, err)
	}
	return g
}

func (g *generation) issuer() pki.Issuer {
	issuer := pki.Issuer{Certificate: g.root}
	if g.cross != nil {
		issuer.Chain = []*x509.Certificate{g.cross}
	}
	return issuer
}

// signing returns the CA in which g signs, after the older ones, whose roots
// clients may still hold.
func (g *generation) signing(older ...*generation) *pki.Authority {
	roots := []*x509.Certificate{g.root}
	ca := &pki.Authority{Issuer: g.issuer(), Key: g.key, SignUntil: g.root.NotAfter}
	for _, o := range older {
		ca.Older, roots = append(ca.Older, o.issuer()), append(roots, o.root)
	}
	ca.Bundle, ca.Anchors = pki.NewBundle(roots...), roots
	return ca
}
