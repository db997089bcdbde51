package ca

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// State is everything that the CA Secret holds.
type State struct {
	Generations []Generation // oldest first; each Cross is signed by the previous generation
	Signing     int          // the number of the generation that signs
	Rotation    Rotation     // the last request that was answered
	// Import is the fingerprint of the last imported CA: a CA is imported once, however
	// long its Secret exists.
	Import string
}

// Newest returns the generation that signs or will sign next. Like all methods, it
// requires a valid state.
func (s State) Newest() Generation { return s.Generations[len(s.Generations)-1] }

// OutOfTime returns why the state cannot sign at now; zero if it can.
func (s State) OutOfTime(now time.Time) api.CAMessage { return s.signing().outOfTime(now) }

// signed returns the number of the newest generation that has signed; 0 for none.
func (s State) signed() int {
	if s.replacing() {
		return 0
	}
	return s.Signing
}

// signing returns the generation that signs.
func (s State) signing() Generation { return s.Generations[s.signingIndex()] }

func (s State) signingIndex() int {
	return slices.IndexFunc(s.Generations, func(g Generation) bool { return g.Number == s.Signing })
}

// waiting reports whether there is a new generation that does not sign yet.
func (s State) waiting() bool { return s.Newest().Number != s.Signing || s.replacing() }

// replacing reports whether the signing generation replaces a lost CA and clients do
// not trust it yet.
func (s State) replacing() bool {
	return s.Rotation.Mode == api.RotateReplaceLost && s.Rotation.Generation == s.Signing && s.signing().SignsSince.IsZero()
}

// Bundle returns what clients must trust at now: the roots of the generation that
// signs, of a new one that does not sign yet, and of those whose leaves may be in use.
func (s State) Bundle(now time.Time) pki.Bundle {
	var roots []*x509.Certificate
	for _, g := range s.Generations {
		if g.trusted(now) || g.Number == s.Signing {
			roots = append(roots, g.Root)
		}
	}
	return pki.NewBundle(roots...)
}

// anchors returns the roots of the bundle that each verify a leaf of the signing
// generation alone.
func (s State) anchors(now time.Time) []*x509.Certificate {
	var roots []*x509.Certificate
	for _, g := range ladder(s.Generations).reached(s.signingIndex(), now) {
		if g.trusted(now) || g.Number == s.Signing {
			roots = append(roots, g.Root)
		}
	}
	return roots
}

// authority returns the CA as it signs and checks leaves in the situation.
func (s State) authority(at Situation) *pki.Authority {
	now, signs := at.Now, s.signingIndex()
	signing := s.Generations[signs]
	served := ladder(s.Generations)
	var older []pki.Issuer
	for i := range signs {
		older = append(older, served.issuer(i, now))
	}
	return &pki.Authority{
		Issuer:        served.issuer(signs, now),
		Key:           signing.Key,
		Older:         older,
		Reissue:       s.reissueWindow(at.Reissue),
		Bundle:        s.bundle(at.ExtraRoots, now),
		Anchors:       s.anchors(now),
		FormerDomains: s.formerDomains(now, at.Domain),
		SignUntil:     signing.signUntil(),
	}
}

// reissueWindow returns when the leaves of older generations are replaced: for the
// given length from the promotion of the signing generation, but not beyond the end of
// the previous one.
func (s State) reissueWindow(length time.Duration) pki.Window {
	i := s.signingIndex()
	if i == 0 {
		return pki.Window{}
	}
	from := s.Generations[i].SignsSince
	until := limit.Earliest(from.Add(length), s.Generations[i-1].Ends())
	if until.Before(from) {
		until = from
	}
	return pki.Window{From: from, Until: until}
}

// formerDomains returns the cluster domains, other than the current one, of the
// generations whose roots clients may hold.
func (s State) formerDomains(now time.Time, domain string) []string {
	var former []string
	for _, g := range s.Generations {
		if g.trusted(now) && g.Domain != "" && g.Domain != domain && !slices.Contains(former, g.Domain) {
			former = append(former, g.Domain)
		}
	}
	slices.Sort(former)
	return former
}

// phase returns the phase of the succession, one of the Phase constants of pkg/api,
// and when it began.
func (s State) phase(now time.Time, reissue time.Duration) (phase string, since time.Time) {
	i := s.signingIndex()
	signing := s.Generations[i]
	if s.waiting() {
		return api.PhaseWait, s.Newest().MadeAt
	}
	window := s.reissueWindow(reissue)
	if now.Before(window.Until) {
		return api.PhaseReissue, signing.SignsSince
	}
	since = signing.SignsSince
	for _, g := range s.Generations[:i] {
		if g.inUse(now) {
			return api.PhaseRetire, window.Until
		}
		if g.UsedUntil.After(since) {
			since = g.UsedUntil
		}
	}
	return api.PhaseStable, since
}
