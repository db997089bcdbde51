package restart

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// candidate is a stale workload that requests a restart, with its status.
type candidate struct {
	stale serving.StaleWorkload
	WorkloadStatus
	s        Situation
	rollouts map[pods.Workload]rollout // of its namespace, now
}

// check returns a finding if it holds the restart, or a Need if the check needs more, or neither.
type check func(candidate) (finding, Need)

// finding is why a workload is not restarted, or zero.
type finding struct {
	hold    Hold
	message string // see Held
}

// nothing is the result of a check that does not hold the restart.
func nothing() (finding, Need) { return finding{}, Need{} }

func held(hold Hold, format string, args ...any) (finding, Need) {
	return finding{hold, fmt.Sprintf(format, args...)}, Need{}
}

// checks run in order. The first that returns a finding or a Need decides.
var checks = []check{
	checkKind, checkOff, checkRefused, checkRead,
	checkThere, checkOwner, checkRestarted, checkRolling, checkAsked, checkStrategy,
	checkPlace, checkService, checkBudgets,
}

// evaluate returns why the workload is not restarted, with an empty Hold if it may be now; or what
// must be read first.
func (s Situation) evaluate(w serving.StaleWorkload, rollouts map[pods.Workload]rollout) (Held, Need) {
	c := candidate{stale: w, WorkloadStatus: s.Workloads[w.Workload], s: s, rollouts: rollouts}
	for _, check := range checks {
		if f, need := check(c); f.hold != "" || !need.None() {
			return Held{Stale: w, UID: c.uid, Hold: f.hold, Message: f.message}, need
		}
	}
	return Held{Stale: w, UID: c.uid}, Need{}
}

func checkKind(c candidate) (finding, Need) {
	switch w := c.stale.Workload; {
	case w.Restartable():
		return nothing()
	case w.Bare():
		return held(holdNotRestartable, "no controller would recreate the pods")
	default:
		return held(holdNotRestartable, "restarting a %s is not supported", w.Kind)
	}
}

func checkOff(c candidate) (finding, Need) {
	if c.s.Limits.Max == 0 {
		return held(holdOff, "--max-restarts is 0")
	}
	return nothing()
}

func checkRefused(c candidate) (finding, Need) {
	if r, ok := c.s.history.refused[KeyOf(c.stale)]; ok {
		return held(holdRefused, "%s", r.why)
	}
	return nothing()
}

// checkRead requests the workload, unless it has no place anyway.
func checkRead(c candidate) (finding, Need) {
	if _, read := c.s.Workloads[c.stale.Workload]; read {
		return nothing()
	}
	if f, _ := checkPlace(c); f.hold != "" {
		return f, Need{}
	}
	return finding{}, Need{Workload: c.stale.Workload}
}

func checkThere(c candidate) (finding, Need) {
	switch {
	case c.Problem != "":
		return held(holdForbidden, "%s", c.Problem)
	case c.Gone:
		return held(holdGone, "%s no longer exists", c.stale.Workload)
	case c.deleting:
		return held(holdDeleting, "it is being deleted")
	}
	return nothing()
}

// checkOwner: a Deployment's name is derived from that of the ReplicaSet, so another Deployment may
// have that name.
func checkOwner(c candidate) (finding, Need) {
	podLabels, there := c.s.Labels[c.stale.Pod]
	switch {
	case !there:
		return held(holdNoPods, "the pod no longer exists")
	case c.selector == nil:
		return held(holdNotOwner, "%s has a selector or pod labels that are too large (at most %d requirements with %d bytes, and %d bytes of labels)",
			c.stale.Workload, maxRequirements, maxSelector, maxLabels)
	case c.stale.Workload.UID != "" && c.stale.Workload.UID != c.uid, !c.selector.Matches(labels.Set(podLabels)):
		return held(holdNotOwner, "%s did not create the pods", c.stale.Workload)
	}
	return nothing()
}

// checkRestarted: at most once per certificate, whoever restarted it.
func checkRestarted(c candidate) (finding, Need) {
	if c.restartedSince(c.stale.Since) {
		if _, rolls := c.rollouts[c.stale.Workload]; rolls {
			return nothing() // see checkRolling
		}
		return held(holdRestarted, "it was restarted at %s, and older pods still run", c.restartedAt.UTC().Format(time.RFC3339))
	}
	if at, ok := c.s.history.restarted[KeyOf(c.stale)]; ok && !at.Before(c.stale.Since) { // otherwise it was for an earlier certificate
		return held(holdUndone, "it was restarted at %s, and annotation %s was removed or reverted since; whatever does that must leave the annotation alone",
			at.UTC().Format(time.RFC3339), AnnotationRestartedAt)
	}
	return nothing()
}

func checkRolling(c candidate) (finding, Need) {
	switch r, rolls := c.rollouts[c.stale.Workload]; {
	case c.paused:
		return held(holdPaused, "it is paused; kubectl rollout resume continues it")
	case !rolls:
		return nothing()
	case r.stuck:
		return held(holdStuck, "its rollout is not progressing (%s)", c.progress.counts)
	}
	return held(holdRolling, "it is rolling out")
}

func checkAsked(c candidate) (finding, Need) {
	if !c.asks {
		return held(holdNotAsked, "its pods request a restart, but its pod template does not")
	}
	return nothing()
}

func checkStrategy(c candidate) (finding, Need) {
	switch {
	case c.wanted == 0:
		return held(holdNoPods, "it is scaled to 0")
	case c.onDelete:
		return held(holdOnDelete, "its update strategy leaves old pods running")
	}
	return nothing()
}

// checkPlace: one rollout per namespace, and --max-restarts in the cluster. The namespaces take
// turns.
func checkPlace(c candidate) (finding, Need) {
	first := finding{}
	for other, r := range c.rollouts {
		f := finding{holdTurn, fmt.Sprintf("%s is rolling out", other)}
		switch {
		case other == c.stale.Workload, r.stuck && !r.ours:
			continue
		case r.stuck:
			f = finding{holdBehind, fmt.Sprintf("%s of the same namespace was restarted, and its rollout is not progressing", other)}
		}
		if first.hold == "" || f.message < first.message { // the same one in every decision
			first = f
		}
	}
	if first.hold == "" && c.s.free < 1 {
		return held(holdFull, "other namespaces have all --max-restarts (%d) places, or have waited for longer", c.s.Limits.Max)
	}
	return first, Need{}
}

func checkService(c candidate) (finding, Need) {
	svc, read := c.s.Services[c.stale.Service]
	switch {
	case c.stale.Service == "": // a client
		return nothing()
	case !read:
		return finding{}, Need{Service: c.stale.Service}
	case !svc.Ready, c.stale.Key != pods.PodKey && svc.Leaf != c.stale.Leaf: // pods with their own keys do not share a leaf
		return held(holdNotReady, "Service %s is not ready with the certificate that its pods should serve", c.stale.Service)
	}
	return nothing()
}

func checkBudgets(c candidate) (finding, Need) {
	switch {
	case c.s.BudgetProblem != "":
		return held(holdForbidden, "%s", c.s.BudgetProblem)
	case c.s.Budgets == nil:
		return finding{}, Need{Budgets: true}
	case len(c.s.Budgets) > MaxBudgets:
		return held(holdBudget, "its namespace has more than %d PodDisruptionBudgets, and the others are not read", MaxBudgets)
	}
	if against := budgetsAgainst(c.s.Budgets, c.template); against != "" {
		return held(holdBudget, "PodDisruptionBudget %s", against)
	}
	return nothing()
}
