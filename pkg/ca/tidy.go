package ca

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// tidied returns the state without what is no longer needed, and when something will
// next be removed; zero: never. A cross-certificate is removed when it has expired,
// and a generation when the cross-certificate that it signed is removed.
func tidied(s State, now time.Time) (State, time.Time) {
	var next time.Time
	due := func(at time.Time) bool {
		if now.After(at) {
			return true
		}
		next = limit.EarliestSet(next, at.Add(time.Second))
		return false
	}
	s.Generations = slices.Clone(s.Generations)
	retireRoots(s, due)
	for i := range s.Generations {
		if g := &s.Generations[i]; g.Cross != nil && due(g.Cross.NotAfter.Add(-endingBefore)) && due(g.Cross.NotAfter) {
			g.Cross = nil
		}
	}
	for len(s.Generations) > 1 && s.Generations[0].Retired && s.Generations[0].Cross == nil && s.Generations[1].Cross == nil {
		s.Generations = s.Generations[1:]
	}
	return s, next
}

// retireRoots removes from the bundle the roots of generations whose last leaf has
// expired, once no leaf of a later one is served with a chain that leads there. Until
// then a client without a newer root needs it, and so does GnuTLS (see narrower). Older
// roots than a removed one go with it: no chain leads to them either.
func retireRoots(s State, due func(time.Time) bool) {
	for i := range s.signingIndex() {
		if g := s.Generations[i]; !due(g.UsedUntil.Add(clockMargin)) {
			return
		}
		next := s.Generations[i+1]
		if next.Root.Equal(s.Generations[i].Root) {
			continue // it is retired with the next one
		}
		if leads := next.Cross != nil && !s.Generations[i].narrower(next); leads && !due(next.Cross.NotAfter) {
			continue
		}
		for j := range i + 1 {
			s.Generations[j].Retired = true
		}
	}
}

// differ reports whether tidying changed anything.
func differ(a, b State) bool {
	return !slices.EqualFunc(a.Generations, b.Generations, func(a, b Generation) bool {
		return a.Number == b.Number && a.Retired == b.Retired && (a.Cross == nil) == (b.Cross == nil)
	})
}
