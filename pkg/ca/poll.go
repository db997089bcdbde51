package ca

import (
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Intervals until the next decision if no watch and no known time triggers one earlier.
const (
	// pollStable catches a clock that was set, and rights that were lost.
	pollStable = 5 * time.Minute
	// pollStopped catches managed Secrets that were deleted, a clock that was set, and
	// a remote CA: none of these is watched.
	pollStopped = time.Minute
	// pollLeaves follows the last certificates that are being replaced.
	pollLeaves = 5 * time.Second
	// pollMoving follows the trust status and the replacement of certificates.
	pollMoving = 2 * time.Second
	// pollAtOnce follows a step: the stored state is read again.
	pollAtOnce = 50 * time.Millisecond
)

// requeueAfter returns the longest time until the next decision.
func requeueAfter(s Situation, d Decision) time.Duration {
	if d.Step.Kind != "" || d.Interim.Step != "" {
		return pollAtOnce
	}
	longest := pollStable
	switch {
	case d.State != nil && moving(*d.State, s):
		longest = pollMoving
	case uncounted(s, d), beingReplaced(s, d):
		longest = pollLeaves
	case d.Problem.Reason != "", s.HasRemote, s.ClockErr != nil, incomplete(d.Status):
		longest = pollStopped
	}
	if d.Next.IsZero() {
		return longest
	}
	return min(longest, max(pollAtOnce, d.Next.Sub(s.Now)))
}

// moving reports whether the phase is one whose progress is followed.
func moving(state State, s Situation) bool {
	phase, _ := state.phase(s.Now, s.Reissue)
	return phase == api.PhaseWait || phase == api.PhaseReissue
}

// uncounted reports whether certificates have yet to be counted.
func uncounted(s Situation, d Decision) bool {
	return s.LeavesCounted && s.Leaves == nil && d.State != nil && len(d.State.Generations) > 1
}

// beingReplaced reports whether certificates of older generations are being replaced.
// One that is not replaced within a minute after its time needs a person.
func beingReplaced(s Situation, d Decision) bool {
	return d.State != nil && incomplete(d.Status) &&
		s.Now.Before(d.State.reissueWindow(s.Reissue).Until.Add(pollStopped))
}

// incomplete reports whether not all certificates are signed by the generation
// that signs.
func incomplete(status *api.CAStatus) bool {
	return status != nil && status.Certificates != nil && status.Replaced != nil && *status.Certificates != *status.Replaced
}
