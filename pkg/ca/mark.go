package ca

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// The high-water mark UsedUntil is raised in steps of markStep, when what it
// leaves is less than markSlack more than the longest leaf takes: one write a
// day, and an API server that is away for less than markSlack stops no signing.
const (
	markStep  = 24 * time.Hour
	markSlack = time.Hour
)

// raised returns s with the signing generation's mark where it must be
// for leaves of up to maxDuration until the next raise; the same state if it is
// there already. The mark goes no further than the CA itself, and never down.
func raised(s State, now time.Time, maxDuration time.Duration) State {
	g := s.signing()
	if !now.Before(raiseAt(g, maxDuration)) {
		mark := limit.Earliest(g.Ends(), seconds(now.Add(maxDuration+markSlack+markStep)))
		if mark.After(g.UsedUntil) {
			s.Generations = slices.Clone(s.Generations)
			s.Generations[s.signingIndex()].UsedUntil = mark
		}
	}
	return s
}

// raiseAt returns from when on the mark of g must be raised, if it still can be.
func raiseAt(g Generation, maxDuration time.Duration) time.Time {
	return g.UsedUntil.Add(-maxDuration - markSlack)
}
