package controller

import (
	"cmp"
	"context"
	"net/netip"
	"sync/atomic"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
)

// strangers has what clients that no list names show.
type strangers struct {
	forger dial.Forger
	trust  *Trust // of the CA for clients; nil if it is not read
	synced atomic.Bool
}

// follow returns once the state of the CA for clients was read, or ctx has ended.
func (s *strangers) follow(ctx context.Context) {
	if s.trust != nil && s.trust.Cache.WaitForCacheSync(ctx) {
		s.synced.Store(true)
	}
}

// unknownDomain is the trust domain of forged certificates if that of the cluster is not known.
const unknownDomain = "cluster.local"

// tryAs dials a port as a stranger, and returns how that was judged.
func (p *Prober) tryAs(ctx context.Context, who probe.Stranger, v probe.Target, port uint16) (probe.Judgement, probe.Cause) {
	if who == probe.InPlaintext {
		return dial.Plaintext(ctx, dial.To(netip.AddrPortFrom(v.Address, port).String()), p.cfg.Timeout)
	}
	var known probe.Trust
	if p.strangers.synced.Load() {
		known = p.strangers.trust.Get(ctx)
	}
	id, ca := v.Guards[port].Listed, known.Signing()
	if ca != nil {
		id.TrustDomain = pki.TrustDomainOf(ca)
	}
	id.TrustDomain = cmp.Or(id.TrustDomain, unknownDomain)
	forged, err := p.strangers.forger.Certificate(ca, id, p.now())
	if err != nil {
		return "", probe.CauseOther
	}
	outcome := p.dialAs(ctx, dial.Client{Certificate: forged, Proxied: true}, v, port)
	return outcome.Judgement, cmp.Or(outcome.Unjudged, outcome.Cause)
}
