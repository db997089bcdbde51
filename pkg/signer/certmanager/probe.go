package certmanager

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// ProbeEvery is the interval of probes: certificates that are requested only to determine the
// issuer's CA. Other certificates also show when it changes.
const ProbeEvery = 24 * time.Hour

// probeAgain is the least interval of probes, after another CA has signed a certificate.
const probeAgain = time.Minute

// Probing is the state of the probes of an issuer, and the actions on them.
type Probing struct {
	Known  *Request   // the last probe that was answered with a certificate, or nil
	Ask    bool       // create another probe
	Delete []*Request // no longer needed
	Err    error      // why Known is nil
}

// Probe decides about the existing probes. doubted is when the last certificate of another CA
// than the known one was seen, zero for never. Unless since is zero, a probe from before it does not count, nor one from
// after now, which was made before the clock was set back.
func Probe(probes []*Request, issuer Issuer, since, doubted, now time.Time) Probing {
	var out Probing
	var last *Request // answered or not
	probes = slices.Clone(probes)
	slices.SortFunc(probes, func(a, b *Request) int { // the newest first
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for _, r := range probes {
		switch {
		case r.Spec.IssuerRef != issuer || out.Known != nil, !since.IsZero() && r.Name > ProbeName(now):
			out.Delete = append(out.Delete, r)
			continue
		case r.Answer().Leaf != nil:
			out.Known = r
		case last != nil: // there is a newer one
			out.Delete = append(out.Delete, r)
			continue
		}
		if last == nil {
			last = r
		}
	}
	if last == nil {
		out.Ask, out.Err = true, (Answer{Waits: "a first certificate was requested, to determine the issuer's CA", At: now}).Pending(now)
		return out
	}
	first := "" // the name of the first probe that counts
	if !since.IsZero() {
		first = ProbeName(since)
	}
	if out.Known != nil && out.Known.Name < first {
		out.Known = nil
	}
	if last.Name < first {
		out.Ask, out.Err = true, (Answer{Waits: "another certificate was requested, to determine the issuer's CA again", At: now}).Pending(now)
		return out
	}
	answer := last.Answer()
	switch {
	case answer.Leaf != nil:
		age := now.Sub(last.CreationTimestamp.Time)
		out.Ask = age >= ProbeEvery || doubted.After(last.CreationTimestamp.Time) && age >= probeAgain
	case answer.Err != nil:
		out.Ask, out.Err = answer.Spent(now), answer.Err
	default:
		out.Err = answer.Pending(now)
	}
	return out
}

// Anchor returns the root that clients must trust for the CA that signed the answer, and the chain
// to serve after its leaves. trusted are the roots and intermediates that the operator gave by
// the named option. Without them, the root is the issuer's.
func (a Answer) Anchor(trusted []*x509.Certificate, option string, now time.Time) (chain []*x509.Certificate, root *x509.Certificate, err error) {
	received := slices.Concat(a.After, a.CA)
	issuer := signerOf(a.Leaf, slices.Concat(received, trusted))
	if issuer == nil {
		return nil, nil, remote.NewError(issue.ReasonCAUntrusted, "the certificate is signed by %q, but neither the issuer's answer nor %s contains that CA", a.Leaf.Issuer, option)
	}
	given := received
	if len(trusted) > 0 {
		given = slices.Concat(trusted, slices.DeleteFunc(slices.Clone(received), remote.SelfSigned))
	}
	return remote.Anchor(issuer, given, option+" must name its root", now)
}
