package restart

import "time"

// Hold is why a stale workload that requests a restart is not restarted now. It is a label of
// servingcert_restarts_held.
type Hold string

const (
	// A person has to restart the workload or replace its pods.
	holdNotRestartable Hold = "NotRestartable" // kubectl rollout restart does not support its kind
	holdOff            Hold = "Off"            // --max-restarts is 0
	holdGone           Hold = "Gone"           // the workload was deleted, and its pods still run
	holdNotOwner       Hold = "NotOwner"       // the workload of that name did not create the pods
	holdOnDelete       Hold = "OnDelete"       // a new template does not replace the pods
	holdRestarted      Hold = "StillStale"     // it was restarted, and older pods still run

	// The workload waits for an action of a person or of another controller.
	holdForbidden Hold = "Forbidden"        // reading it or the budgets is forbidden
	holdRefused   Hold = "Refused"          // the API server rejected the restart
	holdUndone    Hold = "Undone"           // the restart was reverted
	holdNotAsked  Hold = "TemplateDiffers"  // its template does not request it
	holdPaused    Hold = "Paused"           // the Deployment is paused
	holdNotReady  Hold = "CertificateWaits" // the Service is not ready, so another certificate may follow
	holdBudget    Hold = "DisruptionBudget" // a PodDisruptionBudget does not allow it
	holdStuck     Hold = "RolloutStuck"     // its own rollout is not progressing
	holdBehind    Hold = "BehindStuck"      // the rollout of another restarted workload of its namespace is not progressing

	// The hold ends without anyone's action, so no event reports it, or only after a long time.
	holdRolling  Hold = "RollingOut"
	holdDeleting Hold = "Deleting"
	holdNoPods   Hold = "NoPods" // it is scaled to 0, or the pod is gone
	holdTurn     Hold = "Turn"   // another workload of its namespace is rolling out
	holdFull     Hold = "Full"   // no place is free, or other namespaces have waited for longer
)

// ByHand reports whether a person has to restart the workload or replace its pods.
func (h Hold) ByHand() bool {
	switch h {
	case holdNotRestartable, holdOff, holdGone, holdNotOwner, holdOnDelete, holdRestarted:
		return true
	}
	return false
}

// OnlyPods reports whether a restart of the workload would not replace the pods: a person has to
// delete them.
func (h Hold) OnlyPods() bool {
	switch h {
	case holdGone, holdNotOwner, holdOnDelete, holdRestarted:
		return true
	}
	return false
}

// Passes reports whether the hold ends without anyone's action.
func (h Hold) Passes() bool {
	switch h {
	case holdRolling, holdDeleting, holdNoPods, holdTurn, holdFull:
		return true
	}
	return false
}

// reportAfter returns how long the hold must have lasted before an event reports it; 0: never.
func (h Hold) reportAfter(limits Limits) time.Duration {
	switch {
	case h == holdTurn, h == holdFull:
		return limits.PlaceFor // places should have become free by then
	case h.Passes():
		return 0
	}
	return max(limits.Patience, 1)
}

// lookAgain returns when to check the hold again; 0: never.
func (h Hold) lookAgain(limits Limits) time.Duration {
	switch h {
	case holdNotRestartable, holdOff:
		return 0
	case holdTurn, holdFull, holdRolling:
		return limits.Poll
	}
	return limits.Retry
}

// Limits bound the restarts, and set when to check again.
type Limits struct {
	Max        int           // concurrent rollouts in the cluster
	Poll       time.Duration // until a rollout is checked again
	Retry      time.Duration // until any other held workload is checked again
	StuckAfter time.Duration // without progress, until a rollout counts as stuck
	Patience   time.Duration // until an event reports why a workload is not restarted
	PlaceFor   time.Duration // until a rollout no longer counts towards Max
}
