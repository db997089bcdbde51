package certmanager

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// ProbeEvery is how often a certificate is asked for that nobody needs, to see which CA the
// issuer is. What is signed meanwhile shows it as well.
const ProbeEvery = 24 * time.Hour

// probeAgain is how soon another is made if a certificate is by another CA.
const probeAgain = time.Minute

// Probing is what is known of the issuer's CA, and what is to be done to know it.
type Probing struct {
	Known  *Request   // the last probe that was answered with a certificate; nil: none was
	Ask    bool       // make another
	Delete []*Request // are not needed any more
	Err    error      // if Known is nil: why
}

// Probe decides about the probes that there are. doubted is when a certificate was last
// seen that the CA has not signed that is known; zero: never.
func Probe(probes []*Request, issuer Issuer, doubted, now time.Time) Probing {
	var out Probing
	var last *Request // however it is answered
	probes = slices.Clone(probes)
	slices.SortFunc(probes, func(a, b *Request) int { // the newest first
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for _, r := range probes {
		switch {
		case r.Spec.IssuerRef != issuer || out.Known != nil:
			out.Delete = append(out.Delete, r)
			continue
		case r.Answer().Leaf != nil:
			out.Known = r
		case last != nil: // another is newer
			out.Delete = append(out.Delete, r)
			continue
		}
		if last == nil {
			last = r
		}
	}
	if last == nil {
		out.Ask, out.Err = true, (Answer{Waits: "a first certificate was asked for, which shows the CA", At: now}).Pending(now)
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

// Anchor returns which CA has signed the answer, what is served after its leaves, and the
// root that clients must trust. trusted are roots, and what is between, that the operator
// gave by an option of that name; without them the root is what the issuer says.
func (a Answer) Anchor(trusted []*x509.Certificate, option string, now time.Time) (chain []*x509.Certificate, root *x509.Certificate, err error) {
	said := slices.Concat(a.After, a.CA)
	issuer := signerOf(a.Leaf, slices.Concat(said, trusted))
	if issuer == nil {
		return nil, nil, remote.NewError(issue.ReasonCAUntrusted, "the certificate is signed by %q, and neither what the issuer gave with it nor %s has a CA that has signed it", a.Leaf.Issuer, option)
	}
	given := said
	if len(trusted) > 0 {
		given = slices.Concat(trusted, slices.DeleteFunc(slices.Clone(said), remote.SelfSigned))
	}
	return remote.Anchor(issuer, given, option+" must name its root", now)
}
