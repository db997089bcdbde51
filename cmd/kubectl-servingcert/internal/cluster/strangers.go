package cluster

import (
	"cmp"
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// Strangers are clients that no list names, as those of the rotator.
type Strangers struct {
	forger dial.Forger
	known  probe.Trust // of the CA for clients
}

// Strangers returns the strangers of a cluster with servingcert in namespace system. Forged certificates have the name of the
// CA for clients, if the user may read that; otherwise they are self-signed.
func (c *Cluster) Strangers(ctx context.Context, system string) (s Strangers, err error) {
	if s.forger, err = dial.NewForger(); err != nil {
		return s, err
	}
	if cm, err := c.Client.CoreV1().ConfigMaps(system).Get(ctx, api.ClientCAStatusName, metav1.GetOptions{}); err == nil {
		s.known, _ = probe.TrustOf(api.ParseCAStatus(cm.Data))
	}
	return s, nil
}

// Dial dials a port that may be that of a proxy, which does not record the dial as that of a caller. A program that insists on
// a protocol of its own is dialled again without one.
func Dial(ctx context.Context, open dial.Opener, proxied bool, host string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome {
	outcome := dial.Client{Proxied: proxied}.By(ctx, open, host, protocol, timeout)
	if proxied && outcome.Err != nil && strings.Contains(outcome.Err.Error(), "no application protocol") { // RFC 7301, 3.2
		return dial.Client{}.By(ctx, open, host, protocol, timeout)
	}
	return outcome
}

// Try dials a port as strangers, each within the timeout, and returns what it did to them.
func (s Strangers) Try(ctx context.Context, open dial.Opener, host string, protocol starttls.Protocol, timeout time.Duration, guard probe.Guard) *probe.Guarding {
	id, ca, now := guard.Listed, s.known.Signing(), time.Now()
	if id.TrustDomain = api.DefaultLimits().ClusterDomain; ca != nil {
		id.TrustDomain = pki.TrustDomainOf(ca)
	}
	first := dial.Client{Proxied: true}.By(ctx, open, host, protocol, timeout)
	return guard.Try(now, "", first, func(who probe.Stranger) (probe.Judgement, probe.Cause) {
		if who == probe.InPlaintext {
			return dial.Plaintext(ctx, open, timeout)
		}
		forged, err := s.forger.Certificate(ca, id, now)
		if err != nil {
			return "", probe.CauseOther
		}
		outcome := dial.Client{Certificate: forged, Proxied: true}.By(ctx, open, host, protocol, timeout)
		return outcome.Judgement, cmp.Or(outcome.Unjudged, outcome.Cause)
	})
}
