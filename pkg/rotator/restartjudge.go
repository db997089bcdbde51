package rotator

import (
	"fmt"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// hold is why a stale workload that asks for it is not restarted now. It is a
// label of servingcert_restarts_held.
type hold string

const (
	// A person has to do it.
	holdNotRestartable hold = "NotRestartable" // kubectl rollout restart knows no such kind
	holdOff            hold = "Off"            // --max-restarts is 0
	holdGone           hold = "Gone"           // the workload is, and its pods still run
	holdNotOwner       hold = "NotOwner"       // the workload of that name made other pods
	holdOnDelete       hold = "OnDelete"       // a new template would make no new pods
	holdRestarted      hold = "StillStale"     // it was restarted, and pods from before it still run

	// It waits for something that people, or other controllers, are at work on.
	holdForbidden hold = "Forbidden"        // it may not be read, or the budgets may not
	holdRefused   hold = "Refused"          // the API server refused the restart
	holdUndone    hold = "Undone"           // somebody took the restart back
	holdNotAsked  hold = "TemplateDiffers"  // its template does not ask for it
	holdPaused    hold = "Paused"           // the Deployment is
	holdNotReady  hold = "CertificateWaits" // the Service is not ready, so the next certificate may be on its way
	holdBudget    hold = "DisruptionBudget" // a PodDisruptionBudget allows none
	holdStuck     hold = "RolloutStuck"     // its own rollout does not get on
	holdBehind    hold = "BehindStuck"      // one that was restarted before it in its namespace does not

	// It passes by itself, so nobody is told.
	holdRolling  hold = "RollingOut"
	holdDeleting hold = "Deleting"
	holdNoPods   hold = "NoPods" // it is scaled to 0, or the pod went meanwhile
	holdTurn     hold = "Turn"   // another of its namespace rolls out
	holdFull     hold = "Full"   // --max-restarts roll out
)

// byHand reports whether a person has to do it.
func (h hold) byHand() bool {
	switch h {
	case holdNotRestartable, holdOff, holdGone, holdNotOwner, holdOnDelete, holdRestarted:
		return true
	}
	return false
}

// told reports whether an event tells of it.
func (h hold) told() bool {
	switch h {
	case holdRolling, holdDeleting, holdNoPods, holdTurn, holdFull:
		return false
	}
	return true
}

// lookAgain returns when to ask again whether it still holds, 0 for never.
func (h hold) lookAgain(limits restartLimits) time.Duration {
	switch h {
	case holdNotRestartable, holdOff:
		return 0
	case holdTurn, holdFull, holdRolling:
		return limits.poll
	}
	return limits.retry
}

// verdict is why a workload is not restarted now, or nothing.
type verdict struct {
	hold hold
	why  string // the rest of a sentence that begins with "it is not restarted: "
}

// judge says why a workload is not restarted, or nothing if it may be now, or what
// has to be read first. rollouts are those of its namespace now.
func (s restartSituation) judge(w staleWorkload, rollouts map[Workload]rollout) (verdict, restartNeed) {
	switch {
	case !w.Workload.Restartable():
		return verdict{holdNotRestartable, s.notRestartable(w.Workload)}, restartNeed{}
	case s.limits.max == 0:
		return verdict{holdOff, "--max-restarts is 0"}, restartNeed{}
	}
	if r, ok := s.memory.refused[keyOf(w)]; ok {
		return verdict{holdRefused, r.why}, restartNeed{}
	}
	st, read := s.standings[w.Workload]
	if !read {
		if v := s.place(w.Workload, rollouts); v.hold != "" {
			return v, restartNeed{}
		}
		return verdict{}, restartNeed{workload: &w.Workload}
	}
	c := candidate{w, st, s, rollouts}
	for _, check := range workloadChecks {
		if v := check(c); v.hold != "" {
			return v, restartNeed{}
		}
	}
	if v := s.place(w.Workload, rollouts); v.hold != "" {
		return v, restartNeed{}
	}
	return s.judgeRest(c)
}

// judgeRest asks those beside the workload.
func (s restartSituation) judgeRest(c candidate) (verdict, restartNeed) {
	svc, read := s.services[c.stale.Service]
	if !read {
		return verdict{}, restartNeed{service: c.stale.Service}
	}
	if !svc.ready || svc.leaf != c.stale.Leaf {
		return verdict{holdNotReady, fmt.Sprintf("Service %s is not ready with the certificate that its pods should serve", c.stale.Service)}, restartNeed{}
	}
	switch {
	case s.budgetProblem != "":
		return verdict{holdForbidden, s.budgetProblem}, restartNeed{}
	case s.budgets == nil:
		return verdict{}, restartNeed{budgets: true}
	}
	return budgetVerdict(s.budgets, c.template), restartNeed{}
}

func (s restartSituation) notRestartable(w Workload) string {
	if w == (Workload{}) {
		return "no controller would make it anew"
	}
	return fmt.Sprintf("of a %s it is not known how", w.Kind)
}

// candidate is a stale workload and what is known of it.
type candidate struct {
	stale staleWorkload
	standing
	s        restartSituation
	rollouts map[Workload]rollout
}

// workloadChecks are asked in order; the first that holds it is the one.
var workloadChecks = []func(candidate) verdict{
	checkThere, checkOwner, checkRestarted, checkRolling, checkAsked, checkStrategy,
}

func checkThere(c candidate) verdict {
	switch {
	case c.problem != "":
		return verdict{holdForbidden, c.problem}
	case c.gone:
		return verdict{holdGone, fmt.Sprintf("%s %s does not exist any more", c.stale.Workload.Kind, c.stale.Workload.Name)}
	case c.deleting:
		return verdict{holdDeleting, "it is being deleted"}
	}
	return verdict{}
}

// checkOwner: a Deployment is known by a name only, which is that of its
// ReplicaSet without the end, so that it could be another's.
func checkOwner(c candidate) verdict {
	podLabels, there := c.s.labels[c.stale.Pod]
	switch {
	case !there:
		return verdict{holdNoPods, "the pod went meanwhile"}
	case c.stale.Workload.UID != "" && c.stale.Workload.UID != c.uid, !c.selector.Matches(labels.Set(podLabels)):
		return verdict{holdNotOwner, fmt.Sprintf("%s %s is another than the one that made them", c.stale.Workload.Kind, c.stale.Workload.Name)}
	}
	return verdict{}
}

// checkRestarted: once for a certificate, whoever did it.
func checkRestarted(c candidate) verdict {
	if c.restartedSince(c.stale.Since) {
		if _, rolls := c.rollouts[c.stale.Workload]; rolls {
			return verdict{} // see checkRolling
		}
		return verdict{holdRestarted, fmt.Sprintf("it was restarted at %s, and pods from before that still run", c.restartedAt.UTC().Format(time.RFC3339))}
	}
	if at, ok := c.s.memory.restarted[keyOf(c.stale)]; ok {
		return verdict{holdUndone, fmt.Sprintf("it was restarted at %s, and annotation %s was taken away or put back since; whatever does that has to leave it alone",
			at.UTC().Format(time.RFC3339), AnnotationRestartedAt)}
	}
	return verdict{}
}

func checkRolling(c candidate) verdict {
	switch r, rolls := c.rollouts[c.stale.Workload]; {
	case c.paused:
		return verdict{holdPaused, "it is paused; kubectl rollout resume lets it go on"}
	case !rolls:
		return verdict{}
	case r.stuck:
		return verdict{holdStuck, fmt.Sprintf("a rollout of it does not get on (%s)", c.progress.counts)}
	}
	return verdict{holdRolling, "it rolls out"}
}

func checkAsked(c candidate) verdict {
	if !c.asks {
		return verdict{holdNotAsked, "its pods ask for a restart, its template does not"}
	}
	return verdict{}
}

func checkStrategy(c candidate) verdict {
	switch {
	case c.wanted == 0:
		return verdict{holdNoPods, "it is scaled to 0"}
	case c.onDelete:
		return verdict{holdOnDelete, "its update strategy leaves old pods running"}
	}
	return verdict{}
}

// place says why it is not the workload's turn.
func (s restartSituation) place(w Workload, rollouts map[Workload]rollout) verdict {
	first := verdict{}
	for other, r := range rollouts {
		v := verdict{holdTurn, fmt.Sprintf("%s %s rolls out", other.Kind, other.Name)}
		switch {
		case other == w, r.stuck && !r.ours:
			continue
		case r.stuck:
			v = verdict{holdBehind, fmt.Sprintf("%s %s of its namespace was restarted, and its rollout does not get on", other.Kind, other.Name)}
		}
		if first.hold == "" || v.why < first.why { // the same one, however often it is asked
			first = v
		}
	}
	if first.hold == "" && s.free < 1 {
		return verdict{holdFull, fmt.Sprintf("%d workloads roll out, which is --max-restarts", s.limits.max)}
	}
	return first
}

// budgetVerdict: a rollout takes pods away without asking their budgets, so they
// are asked before. All of them have to allow it, as of an eviction.
func budgetVerdict(budgets []policyv1.PodDisruptionBudget, podLabels map[string]string) verdict {
	var against []string
	for i := range budgets {
		b := &budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(podLabels)) {
			continue
		}
		switch {
		case b.Status.ObservedGeneration < b.Generation:
			against = append(against, fmt.Sprintf("%s is not evaluated yet", b.Name))
		case b.Status.DisruptionsAllowed < 1:
			against = append(against, fmt.Sprintf("%s allows no disruption now (%d of %d pods healthy, %d needed)",
				b.Name, b.Status.CurrentHealthy, b.Status.ExpectedPods, b.Status.DesiredHealthy))
		}
	}
	if len(against) == 0 {
		return verdict{}
	}
	return verdict{holdBudget, "PodDisruptionBudget " + strings.Join(against, "; ")}
}
