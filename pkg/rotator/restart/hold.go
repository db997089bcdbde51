package restart

import "time"

// Hold is why a stale workload that asks for it is not restarted now. It is a
// label of servingcert_restarts_held.
type Hold string

const (
	// A person has to restart it, or its pods.
	holdNotRestartable Hold = "NotRestartable" // kubectl rollout restart does not support its kind
	holdOff            Hold = "Off"            // --max-restarts is 0
	holdGone           Hold = "Gone"           // the workload is gone, and its pods still run
	holdNotOwner       Hold = "NotOwner"       // the workload of that name made other pods
	holdOnDelete       Hold = "OnDelete"       // a new template would make no new pods
	holdRestarted      Hold = "StillStale"     // it was restarted, and pods from before that still run

	// It waits for something that people, or other controllers, have to do.
	holdForbidden Hold = "Forbidden"        // it may not be read, or the budgets may not
	holdRefused   Hold = "Refused"          // the API server refused the restart
	holdUndone    Hold = "Undone"           // somebody reverted the restart
	holdNotAsked  Hold = "TemplateDiffers"  // its template does not ask for it
	holdPaused    Hold = "Paused"           // the Deployment is
	holdNotReady  Hold = "CertificateWaits" // the Service is not ready, so the next certificate may be on its way
	holdBudget    Hold = "DisruptionBudget" // a PodDisruptionBudget does not allow it
	holdStuck     Hold = "RolloutStuck"     // its own rollout is not progressing
	holdBehind    Hold = "BehindStuck"      // the rollout of one that was restarted before it in its namespace is not

	// It passes by itself, so no event reports it, or only if it takes long.
	holdRolling  Hold = "RollingOut"
	holdDeleting Hold = "Deleting"
	holdNoPods   Hold = "NoPods" // it is scaled to 0, or the pod is gone
	holdTurn     Hold = "Turn"   // another of its namespace rolls out
	holdFull     Hold = "Full"   // --max-restarts roll out, or other namespaces have waited for longer
)

// ByHand reports whether a person has to restart it.
func (h Hold) ByHand() bool {
	switch h {
	case holdNotRestartable, holdOff, holdGone, holdNotOwner, holdOnDelete, holdRestarted:
		return true
	}
	return false
}

// OnlyPods reports whether a restart of the workload would not replace the pods,
// so that a person has to delete them.
func (h Hold) OnlyPods() bool {
	switch h {
	case holdGone, holdNotOwner, holdOnDelete, holdRestarted:
		return true
	}
	return false
}

// Passes reports whether the hold passes by itself.
func (h Hold) Passes() bool {
	switch h {
	case holdRolling, holdDeleting, holdNoPods, holdTurn, holdFull:
		return true
	}
	return false
}

// reportAfter returns how long it must have held before an event reports it, 0 for
// never.
func (h Hold) reportAfter(limits Limits) time.Duration {
	switch {
	case h == holdTurn, h == holdFull:
		return limits.PlaceFor // the places should have changed hands by then
	case h.Passes():
		return 0
	}
	return max(limits.Patience, 1)
}

// lookAgain returns when to check again whether it still holds, 0 for never.
func (h Hold) lookAgain(limits Limits) time.Duration {
	switch h {
	case holdNotRestartable, holdOff:
		return 0
	case holdTurn, holdFull, holdRolling:
		return limits.Poll
	}
	return limits.Retry
}

// Limits bound the restarts, and say when to look again.
type Limits struct {
	Max        int           // workloads that roll out at a time, in the cluster
	Poll       time.Duration // until a rollout is looked at again
	Retry      time.Duration // until a workload is that waits for something else
	StuckAfter time.Duration // without progress, until a rollout counts as stuck
	Patience   time.Duration // until an event reports why a workload is not restarted
	PlaceFor   time.Duration // until a rollout that goes on does not count towards Max any more
}
