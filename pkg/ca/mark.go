package ca

import (
	"slices"
	"time"
)

// The high-water mark UsedUntil is raised in steps of markStep, when what it
// leaves is less than markSlack more than the longest leaf takes: one write a
// day, and an API server that is away for less than markSlack stops no signing.
const (
	markStep  = 24 * time.Hour
	markSlack = time.Hour
)

// raised returns the state with the signing generation's mark where it must be
// for leaves of up to maxDuration until the next raise; the same state if it is
// there already. The mark goes no further than the CA itself, and never down.
func (s State) raised(now time.Time, maxDuration time.Duration) State {
	g := s.signing()
	if !now.Before(g.raiseAt(maxDuration)) {
		mark := earlier(g.ends(), seconds(now.Add(maxDuration+markSlack+markStep)))
		if mark.After(g.UsedUntil) {
			s.Generations = slices.Clone(s.Generations)
			s.Generations[s.signingIndex()].UsedUntil = mark
		}
	}
	return s
}

// raiseAt returns from when on the mark must be raised, if it still can be.
func (g Generation) raiseAt(maxDuration time.Duration) time.Time {
	return g.UsedUntil.Add(-maxDuration - markSlack)
}

// seconds is how times are kept.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
