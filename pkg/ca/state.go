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
	Generations []Generation // oldest first; each one's Cross is signed by the one before
	Signing     int          // the number of the generation that signs
	Rotation    Rotation     // the last request that was answered
	// Import is the fingerprint of the last CA that was imported: it is imported
	// once, however long its Secret stays.
	Import string
}

// Newest returns the generation that signs or is to sign next. The state must be
// valid, as for all that follows.
func (s State) Newest() Generation { return s.Generations[len(s.Generations)-1] }

// OutOfTime returns why the state cannot sign at now, zero if it can.
func (s State) OutOfTime(now time.Time) api.CAMessage { return s.signing().outOfTime(now) }

// signed returns the number of the newest generation that has signed, 0 if none.
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

// waiting reports whether a new generation does not sign yet.
func (s State) waiting() bool { return s.Newest().Number != s.Signing || s.replacing() }

// replacing reports whether the generation takes the place of a CA that is lost, and
// clients are yet to trust it beside that.
func (s State) replacing() bool {
	return s.Rotation.Mode == api.RotateReplaceLost && s.Rotation.Generation == s.Signing && s.signing().SignsSince.IsZero()
}

// Bundle returns what clients must trust at now: the root of the generation that
// signs, of one that does not yet, and of those whose leaves may be in use.
func (s State) Bundle(now time.Time) pki.Bundle {
	var roots []*x509.Certificate
	for _, g := range s.Generations {
		if g.trusted(now) || g.Number == s.Signing {
			roots = append(roots, g.Root)
		}
	}
	return pki.NewBundle(roots...)
}

// anchors returns the roots of the bundle each of which alone verifies a leaf of
// the generation that signs.
func (s State) anchors(now time.Time) []*x509.Certificate {
	var roots []*x509.Certificate
	for _, g := range ladder(s.Generations).reached(s.signingIndex(), now) {
		if g.trusted(now) || g.Number == s.Signing {
			roots = append(roots, g.Root)
		}
	}
	return roots
}

// authority returns what it takes at now to sign a leaf and to check one.
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

// reissueWindow is when the leaves of older generations are replaced: from when
// the one that signs was promoted, for as long as given, but not beyond the end
// of the one before.
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

// formerDomains are the cluster domains, other than the one of now, of the
// generations whose roots clients may hold: what those roots permit.
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

// phase returns how far a succession is, one of the Phase constants of pkg/api,
// and since when.
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
