package server

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// looks dials a port as the rotator does.
func (g *guarded) looks(name string, c *tls.Certificate) probe.Outcome {
	g.t.Helper()
	outcome := dial.Client{Certificate: c, Proxied: true}.By(g.t.Context(), dial.To(g.at(name).String()), "web.shop.svc", starttls.TLS, patience)
	require.Equal(g.t, probe.TLS, outcome.Kind, "the port shows its certificate, whoever dials: %v", outcome.Err)
	return outcome
}

// The rotator sees whom a port admits, and no list of callers has it. Of what it sends, the program gets nothing, not even
// where all are admitted, or with the certificate of a listed client: whoever calls in its name does not call.
func TestStrangersAreSeenRefused(t *testing.T) {
	var reached atomic.Int64
	g := startGuarded(t, program(t, func(c *net.TCPConn) { reached.Add(1); echo(c) }), strict+"=;"+both+"=")
	forger, err := dial.NewForger()
	require.NoError(t, err)
	id := pki.SPIFFEID{TrustDomain: domain, Namespace: "shop", ServiceAccount: "cart"}
	forged, err := forger.Certificate(g.ca.cert, id, time.Now())
	require.NoError(t, err)
	selfSigned, err := forger.Certificate(nil, id, time.Now())
	require.NoError(t, err)
	probes := uint64(0)
	for _, c := range []struct {
		list string
		want probe.Judgement
	}{
		{onlyCart, probe.Refused},
		{strict + "=any;" + both + "=any", probe.Refused},
		{strict + "=watch,shop/cart;" + both + "=watch", probe.Admitted},
		{strict + "=open;" + both + "=open", probe.Admitted},
	} {
		g.list(c.list)
		for _, name := range []string{strict, both} {
			for who, cert := range map[string]*tls.Certificate{"without a certificate": nil, "forged": forged, "self-signed": selfSigned} {
				require.Equal(t, c.want, g.looks(name, cert).Judgement, "%s %s: %s", c.list, name, who)
				probes++
			}
			g.eventually("probes", func() bool { return g.of(name).counters.probes.Load() == probes })
			probes -= 3
		}
		probes += 3
	}
	g.list(onlyCart)
	require.Equal(t, probe.Admitted, g.looks(strict, g.ca.issue(t, cart)).Judgement)
	require.Equal(t, probe.Refused, g.looks(strict, g.ca.issue(t, other)).Judgement)
	require.Empty(t, g.callers())
	for _, reason := range proxy.Reasons() {
		require.Zero(t, g.refusals(strict, reason)+g.refusals(both, reason)+g.watches(strict, reason)+g.watches(both, reason), reason)
	}
	require.Zero(t, reached.Load())
}

// Plaintext that the rotator sends is refused, and no caller's. Where it is not refused, it is a call like others.
func TestPlaintextIsSeenRefused(t *testing.T) {
	g := startGuarded(t, program(t, echo), onlyCart)
	plain := func() probe.Judgement {
		judgement, _ := dial.Plaintext(t.Context(), dial.To(g.at(both).String()), patience)
		return judgement
	}
	require.Equal(t, probe.Refused, plain())
	require.Empty(t, g.callers())
	require.Zero(t, g.refusals(both, proxy.Unencrypted))
	require.EqualValues(t, 1, g.of(both).counters.probes.Load())
	g.list(both + "=watch")
	require.Equal(t, probe.Admitted, plain())
	require.Equal(t, 1, g.watches(both, proxy.Unencrypted))
	require.Len(t, g.callers(), 1)
}
