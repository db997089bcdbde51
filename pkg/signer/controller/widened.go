package controller

import (
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// roots remembers since when clients have held the roots that they hold now, as far as
// this process has seen. Nobody writes down when a root went.
type roots struct {
	mu      sync.Mutex
	anchors []*x509.Certificate
	since   time.Time
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
