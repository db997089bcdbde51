package ca

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// The high-water mark UsedUntil is raised in steps of markStep, when it is less than
// markSlack after the end of the longest leaf: one write a day, and an API server that
// is unavailable for less than markSlack does not stop signing.
const (
	markStep  = 24 * time.Hour
	markSlack = time.Hour
)

// raised returns s with the signing generation's mark high enough for leaves of up to
// maxDuration until the next raise; s itself if it is already. The mark never exceeds
// the CA's own end and never decreases.
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

// raiseAt returns when the mark of g must be raised, if it still can be.
func raiseAt(g Generation, maxDuration time.Duration) time.Time {
	return g.UsedUntil.Add(-maxDuration - markSlack)
}
