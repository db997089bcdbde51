package ca

import (
	"crypto/x509"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// maxCrosses bounds the served chain. Java's path builder follows five
// intermediate certificates unless told otherwise
// (PKIXBuilderParameters.getMaxPathLength); three stay well below.
const maxCrosses = 3

// below returns the cross-certificate of generation i's root, nil if there is
// none, and the generation that signed it. An issuer that came under the root of
// the one before it shares that one's. last: the ladder ends there.
func (s State) below(i int) (cross *x509.Certificate, older int, last bool) {
	for i > 0 && s.Generations[i].Cross == nil && s.Generations[i-1].Root.Equal(s.Generations[i].Root) {
		i--
	}
	return s.Generations[i].Cross, i - 1, i < 1 || s.Generations[i-1].narrower(s.Generations[i])
}

// narrower reports whether the generation does not permit all that the next one
// does. Such a one is trusted only as long as its leaves are in use, so that its
// constraints judge no more, and no ladder goes on below it: GnuTLS looks for a
// root by the last certificate of the chain only, and must find it in the bundle.
func (g Generation) narrower(next Generation) bool {
	wanted := pki.ConstraintsOf(next.Root)
	if len(wanted.PermittedDNS) == 0 { // everything
		wanted.PermittedDNS = []string{""}
	}
	return len(g.misses(wanted)) > 0
}

// misses returns what the constraints permit and the generation's certificates do
// not.
func (g Generation) misses(wanted pki.Constraints) []string {
	var missing []string
	for _, domain := range wanted.PermittedDNS {
		if !pki.PermitsDNS(g.Root, domain) || !pki.PermitsDNS(g.Issuer(), domain) {
			missing = append(missing, domain)
		}
	}
	if wanted.PermitIPs && !(pki.ConstraintsOf(g.Root).PermitIPs && pki.ConstraintsOf(g.Issuer()).PermitIPs) {
		missing = append(missing, "IP addresses")
	}
	return missing
}

// A cross-certificate is served until endingBefore before it expires, and leaves
// that are served with it are replaced over the hour from then on.
const (
	endingBefore = 2 * time.Hour
	shortenOver  = time.Hour
)

// ladder returns what is served after a leaf of generation i: its intermediates
// and the cross-certificates from it down, newest first, as far as they reach,
// and never a root. From the first cross on that ends soon it is apart.
func (s State) ladder(i int, now time.Time) (chain, ending []*x509.Certificate) {
	own := len(s.Generations[i].Intermediates)
	var all []*x509.Certificate
	for crosses := 0; i >= 0; crosses++ {
		all = append(all, s.Generations[i].Intermediates...)
		cross, older, last := s.below(i)
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
// i at now, newest first: its own, and those that its ladder reaches.
func (s State) reached(i int, now time.Time) []Generation {
	found := []Generation{s.Generations[i]}
	for crosses := 0; crosses < maxCrosses; crosses++ {
		cross, older, last := s.below(i)
		if cross == nil || older < 0 || !now.Before(cross.NotAfter.Add(-endingBefore)) {
			break
		}
		i = older
		if found = append(found, s.Generations[i]); last {
			break
		}
	}
	return found
}

// anchors returns the roots of the bundle each of which alone verifies a leaf of
// the generation that signs.
func (s State) anchors(now time.Time) []*x509.Certificate {
	var roots []*x509.Certificate
	for _, g := range s.reached(s.signingIndex(), now) {
		if g.trusted(now) || g.Number == s.Signing {
			roots = append(roots, g.Root)
		}
	}
	return roots
}

func (s State) issuer(i int, now time.Time) pki.Issuer {
	chain, ending := s.ladder(i, now)
	issuer := pki.Issuer{Certificate: s.Generations[i].Issuer(), Chain: chain, Ending: ending}
	if len(ending) > 0 {
		from := ending[0].NotAfter.Add(-endingBefore)
		issuer.Shorten = pki.Window{From: from, Until: from.Add(shortenOver)}
	}
	return issuer
}
