package ca

import (
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// How long until a decision is made anew though no watch and no known time asks
// for it.
const (
	// pollStable catches a clock that was set while the process slept.
	pollStable = time.Hour
	// pollStopped catches managed Secrets that went away, a clock that was set, and
	// a remote CA: none is watched.
	pollStopped = time.Minute
	// pollLeaves follows the last certificates that are being replaced.
	pollLeaves = 5 * time.Second
	// pollMoving follows the trust status, and the certificates that are being
	// replaced.
	pollMoving = 2 * time.Second
	// pollAtOnce follows a step: what is stored now is read anew.
	pollAtOnce = 50 * time.Millisecond
)

// requeueAfter returns after how long to decide anew, at the latest.
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

// uncounted reports whether there are certificates to be counted that were not
// seen yet.
func uncounted(s Situation, d Decision) bool {
	return s.LeavesCounted && s.Leaves == nil && d.State != nil && len(d.State.Generations) > 1
}

// beingReplaced reports whether certificates of older generations are about to be
// replaced. One that is not within a minute after its time needs a person.
func beingReplaced(s Situation, d Decision) bool {
	return d.State != nil && incomplete(d.Status) &&
		s.Now.Before(d.State.reissueWindow(s.Reissue).Until.Add(pollStopped))
}

// incomplete reports whether not all certificates are signed by the generation
// that signs.
func incomplete(status *api.CAStatus) bool {
	return status != nil && status.Certificates != nil && status.Replaced != nil && *status.Certificates != *status.Replaced
}
