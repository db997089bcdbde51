package controller

import (
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// roots records since when clients have held the current roots, and which they held before, as
// far as this process has observed. The time at which a root was removed is not persisted.
type roots struct {
	mu      sync.Mutex
	anchors []*x509.Certificate
	since   time.Time
	ca      *pki.Authority // the last one passed to succeeded
	before  signer.Before
}

// window returns the window of the given length that began when the anchors last changed.
func (r *roots) window(ca *pki.Authority, now time.Time, length time.Duration) pki.Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.anchors, ca.Anchors, (*x509.Certificate).Equal) {
		r.anchors, r.since = ca.Anchors, now
	}
	return pki.Window{From: r.since, Until: r.since.Add(length)}
}

// maxRootsWindow is the longest time over which the CA bundle in Secrets is replaced: the Secrets
// must have a new root soon after its CA begins to sign.
const maxRootsWindow = 5 * time.Minute

// succeeded returns the bundle before the CA's current one. It is replaced in Secrets over the given
// length of time, but at once if the two bundles share no root: a client with the previous bundle
// then rejects every new certificate.
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
