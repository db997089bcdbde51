package ca

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// maxCrosses bounds the served chain. Java's path builder follows five intermediate
// certificates by default (PKIXBuilderParameters.getMaxPathLength); three is well
// below that.
const maxCrosses = 3

// ladder is the generations of a State, oldest first, linked by their
// cross-certificates.
type ladder []Generation

// below returns the cross-certificate of generation i's root, nil if there is none,
// and the index of the generation that signed it. A generation with the same root as
// the one before it shares its cross-certificate. last: the ladder ends there.
func (l ladder) below(i int) (cross *x509.Certificate, older int, last bool) {
	for i > 0 && l[i].Cross == nil && l[i-1].Root.Equal(l[i].Root) {
		i--
	}
	return l[i].Cross, i - 1, i < 1 || l[i-1].narrower(l[i])
}

// A cross-certificate is served until endingBefore before it expires. The leaves that
// are served with it are replaced during shortenOver from that time on.
const (
	endingBefore = 2 * time.Hour
	shortenOver  = time.Hour
)

// chain returns what is served after a leaf of generation i: its intermediates and
// the cross-certificates below it, newest first, and never a root. The part that
// starts at the first cross-certificate about to expire is returned as ending.
func (l ladder) chain(i int, now time.Time) (chain, ending []*x509.Certificate) {
	own := len(l[i].Intermediates)
	var all []*x509.Certificate
	for crosses := 0; i >= 0; crosses++ {
		all = append(all, l[i].Intermediates...)
		cross, older, last := l.below(i)
		if cross == nil || crosses == maxCrosses {
			break
		}
		if all, i = append(all, cross), older; last {
			break
		}
	}
	for end := own; end < len(all); end++ {
		if !now.Before(all[end].NotAfter.Add(-endingBefore)) {
			return all[:end:end], all[end:]
		}
	}
	return all, nil
}

// reached returns the generations whose root alone verifies a leaf of generation
// i at now, newest first: itself, and those that its ladder reaches.
func (l ladder) reached(i int, now time.Time) []Generation {
	found := []Generation{l[i]}
	for crosses := 0; crosses < maxCrosses; crosses++ {
		cross, older, last := l.below(i)
		if cross == nil || older < 0 || !now.Before(cross.NotAfter.Add(-endingBefore)) {
			break
		}
		i = older
		if found = append(found, l[i]); last {
			break
		}
	}
	return found
}

// issuer returns generation i as an issuer with its chain.
func (l ladder) issuer(i int, now time.Time) pki.Issuer {
	chain, ending := l.chain(i, now)
	issuer := pki.Issuer{Certificate: l[i].Issuer(), Chain: chain, Ending: ending}
	if len(ending) > 0 {
		from := ending[0].NotAfter.Add(-endingBefore)
		issuer.Shorten = pki.Window{From: from, Until: from.Add(shortenOver)}
	}
	return issuer
}

// oldest returns the oldest generation that a full ladder reaches from the newest
// generation; nil if there is room for another cross-certificate.
func (l ladder) oldest(now time.Time) *Generation {
	reached := l.reached(len(l)-1, now)
	if len(reached) <= maxCrosses {
		return nil
	}
	return &reached[maxCrosses]
}

// full reports whether another generation would need more than maxCrosses.
func (l ladder) full(now time.Time) bool { return l.oldest(now) != nil }

// leftOut returns which clients could not verify a new generation; "" if all could.
func (l ladder) leftOut(now time.Time) string {
	oldest := l.oldest(now)
	if oldest == nil {
		return ""
	}
	return fmt.Sprintf("clients that hold only the root of %s, which expires at %s, could not verify a new generation", oldest, formatTime(oldest.Root.NotAfter))
}
