package controller

import (
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// roots remembers since when clients have held the roots that they hold now, and which they held
// before, as far as this process has seen. Nobody writes down when a root went.
type roots struct {
	mu      sync.Mutex
	anchors []*x509.Certificate
	since   time.Time
	ca      *pki.Authority // whose bundle is the latest
	before  signer.Before
}

// window returns the time of the given length since the anchors are these.
func (r *roots) window(ca *pki.Authority, now time.Time, length time.Duration) pki.Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.anchors, ca.Anchors, (*x509.Certificate).Equal) {
		r.anchors, r.since = ca.Anchors, now
	}
	return pki.Window{From: r.since, Until: r.since.Add(length)}
}

// maxRootsWindow is the most time over which the files of the CA bundle in Secrets are replaced: a
// new CA is not to sign long before they have its root.
const maxRootsWindow = 5 * time.Minute

// succeeded returns the bundle before that of the CA. Its files are replaced over the time of the
// given length since then, but at once if no root of before is in the bundle any more: whoever
// has the files verifies nothing then.
func (r *roots) succeeded(ca *pki.Authority, now time.Time, length time.Duration) signer.Before {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ca == ca {
		return r.before
	}
	if last := r.ca; last != nil && last.Bundle.Hash() != ca.Bundle.Hash() {
		known, kept := last.Bundle.Certificates(), ca.Bundle.Certificates()
		r.before = signer.Before{}
		if slices.ContainsFunc(known, func(c *x509.Certificate) bool { return slices.ContainsFunc(kept, c.Equal) }) {
			r.before = signer.Before{Bundle: &last.Bundle, Replace: pki.Window{From: now, Until: now.Add(min(length, maxRootsWindow))}}
		}
	}
	r.ca = ca
	return r.before
}
