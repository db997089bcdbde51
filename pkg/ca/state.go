package ca

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Origin is where a generation comes from.
type Origin string

// The origins.
const (
	OriginOwn    Origin = ""       // made here
	OriginImport Origin = "import" // brought by a person, in Secret api.CAImportName
	OriginRemote Origin = "remote" // elsewhere: it signs itself, and we have no key
)

// Generation is one key of the CA and what belongs to it. Times are in whole
// seconds, UTC.
type Generation struct {
	// Number counts generations, from 1. It is part of the subject of a root that
	// was made here.
	Number int
	Origin Origin
	// Domain is the cluster domain that it was made for.
	Domain string
	// Why it was made, for people.
	Why string
	// Root is the self-signed certificate that clients trust.
	Root *x509.Certificate
	// Intermediates are what is between a leaf and the Root, the one that signs
	// leaves first. None if the Root's key does.
	Intermediates []*x509.Certificate
	// Cross is the Root's key and subject signed by the generation before, so that
	// a client which only holds that one's root verifies too. Nil for the first,
	// and where the one before had no key to sign it with.
	Cross *x509.Certificate
	// Key is nil once it was erased: another generation signs now.
	Key crypto.Signer

	MadeAt     time.Time // when it was prepared
	TrustedAt  time.Time // from when on every target is known to have held its root; zero: not yet
	SignsSince time.Time // when it was promoted; zero: not yet
	// UsedUntil is the latest NotAfter that the generation may sign: written down
	// before it is used, so that it is known for sure when the root is last
	// needed. It never goes down. Zero: nothing was signed.
	UsedUntil time.Time
	// Retired: the root has left the bundle. What remains is its part of the
	// chain, for clients that still hold an older root.
	Retired bool
}

// Rotation is a request that a person made with api.AnnotationRotate, and what
// became of it.
type Rotation struct {
	Mode       api.RotateMode `json:"mode"`
	Reason     string         `json:"reason"`
	Generation int            `json:"generation,omitempty"` // that was made for it
	Refused    string         `json:"refused,omitempty"`    // why none was
}

// State is everything that the CA Secret holds.
type State struct {
	Generations []Generation // oldest first; each one's Cross is signed by the one before
	Signing     int          // the number of the generation that signs
	Rotation    Rotation     // the last request that was answered
	// Import is the fingerprint of the last CA that was imported: it is imported
	// once, however long its Secret stays.
	Import string
}

// Issuer returns the certificate whose key signs leaves.
func (g Generation) Issuer() *x509.Certificate {
	if len(g.Intermediates) > 0 {
		return g.Intermediates[0]
	}
	return g.Root
}

// ends returns when the generation can no longer be used.
func (g Generation) ends() time.Time {
	end := g.Root.NotAfter
	for _, c := range g.Intermediates {
		end = earlier(end, c.NotAfter)
	}
	return end
}

// signUntil returns the latest NotAfter that a leaf of the generation may have.
func (g Generation) signUntil() time.Time { return earlier(g.ends(), g.UsedUntil) }

// inUse reports whether leaves that the generation signed may be in use at now.
func (g Generation) inUse(now time.Time) bool { return !now.After(g.UsedUntil.Add(clockMargin)) }

// trusted reports whether clients are to trust the root at now.
func (g Generation) trusted(now time.Time) bool { return !g.Retired && !now.After(g.Root.NotAfter) }

// signing returns the generation that signs. The state must be valid, as for all
// that follows.
func (s State) signing() Generation { return s.Generations[s.signingIndex()] }

// newest returns the generation that signs or is to sign next.
func (s State) newest() Generation { return s.Generations[len(s.Generations)-1] }

// waiting reports whether a new generation does not sign yet.
func (s State) waiting() bool { return s.newest().Number != s.Signing }

func (s State) signingIndex() int {
	return slices.IndexFunc(s.Generations, func(g Generation) bool { return g.Number == s.Signing })
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

// Authority returns what signing a leaf and checking one takes at now. The
// leaves of older generations are replaced within reissue.
func (s State) Authority(now time.Time, domain string, reissue time.Duration) *pki.Authority {
	signs := s.signingIndex()
	signing := s.Generations[signs]
	var older []pki.Issuer
	for i := range signs {
		older = append(older, s.issuer(i, now))
	}
	return &pki.Authority{
		Issuer:        s.issuer(signs, now),
		Key:           signing.Key,
		Older:         older,
		Reissue:       s.reissueWindow(reissue),
		Bundle:        s.Bundle(now),
		Anchors:       s.anchors(now),
		FormerDomains: s.formerDomains(now, domain),
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
	until := earlier(from.Add(length), s.Generations[i-1].ends())
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
		return api.PhaseWait, s.newest().MadeAt
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

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// clock is how messages show a time.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// name is how messages show a generation.
func (g Generation) name() string {
	return fmt.Sprintf("generation %d (%s)", g.Number, g.Issuer().Subject.CommonName)
}
