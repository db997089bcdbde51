package restart

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Situation is what a decision about the restarts of a namespace is made from.
// What is nil in it or missing was not read yet: a Decision says what it needs
// next, so that nothing is read in vain.
type Situation struct {
	Now    time.Time
	Limits Limits

	Stale []serving.StaleWorkload
	// Labels are those of a stale workload's pod, by the pod's name.
	Labels    map[string]map[string]string
	Standings map[pods.Workload]Standing
	Services  map[string]ServiceStanding
	Budgets   []policyv1.PodDisruptionBudget // nil: not read
	// BudgetProblem is why the budgets may not be read, or empty.
	BudgetProblem string

	// free is how many of the --max-restarts places neither a rollout of another
	// namespace has, nor a namespace waits for that came before.
	free int
	// leading is when this process began to lead.
	leading time.Time
	// first: this process has not decided anything about the namespace before.
	first    bool
	rollouts map[pods.Workload]rollout // as of the last decision
	memory   memory
}

// Need is what must be read before a decision can be made; nothing if it is zero.
type Need struct {
	Workload *pods.Workload
	Service  string
	Budgets  bool
}

// None reports whether nothing must be read.
func (n Need) None() bool { return n == Need{} }

// Decision is what follows for a namespace.
type Decision struct {
	Need  Need   // if something, the rest means nothing
	Start *Start // at most one at a time
	// Held are the other workloads that ask for a restart, in order, and Notify those
	// of them that an event is to report.
	Held, Notify []Held
	// Stuck are the rollouts that got stuck now.
	Stuck []Stuck
	// After is when to look again, 0 if nothing is waited for.
	After time.Duration

	// rollouts are all that go on, the one that is started included.
	rollouts map[pods.Workload]rollout
	records  map[holdKey]holdRecord
	at       time.Time // Situation.Now
}

// Start is a restart.
type Start struct {
	Stale serving.StaleWorkload
	UID   types.UID // of the workload
	// Patch is a strategic merge patch, which fails if the workload has changed
	// since it was read.
	Patch []byte
	// keys are all that the restart is for.
	keys []Key
	at   time.Time
}

// Held is a workload that is not restarted now.
type Held struct {
	Stale   serving.StaleWorkload
	UID     types.UID // of the workload, empty if it was not read
	Hold    Hold
	Message string // the rest of a sentence that begins with "it is not restarted: "
}

// Stuck is a restarted workload whose rollout is stuck.
type Stuck struct {
	Workload pods.Workload
	UID      types.UID
	Message  string // the rest of a sentence that begins with "the rollout is not complete: "
	Progress string // how far the rollout is
}

// Decide says what is restarted now, why the rest is not, and when to look again.
func Decide(s Situation) Decision {
	d := Decision{records: map[holdKey]holdRecord{}, at: s.Now}
	candidates := s.candidates()
	if d.Need = s.unread(candidates); !d.Need.None() {
		return d
	}
	rollouts := s.track(candidates, &d)
	for _, w := range candidates {
		h, need := s.judge(w, rollouts)
		switch {
		case !need.None():
			return Decision{Need: need}
		case h.Hold != "":
			d.hold(s, h)
		case d.Start == nil:
			start, err := s.start(w)
			if err != nil {
				d.hold(s, Held{Stale: w, Hold: holdRefused, Message: err.Error()})
				continue
			}
			d.Start = start
			rollouts[w.Workload] = rollout{ours: true, place: true, begun: s.Now, progressed: s.Now} // before it is; the others wait for it
		}
	}
	d.rollouts = rollouts
	d.After = s.nextLook(d)
	return d
}

// candidates returns the workloads that ask for a restart that would help, those
// first that have been stale for longest.
func (s Situation) candidates() []serving.StaleWorkload {
	var out []serving.StaleWorkload
	for _, w := range s.Stale {
		if w.OnRotate == api.OnRotateRestart && !w.ReadsOtherFiles {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b serving.StaleWorkload) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.Name, b.Workload.Name),
			a.Key.Compare(b.Key), cmp.Compare(a.Pod, b.Pod))
	})
	return out
}

// unread returns a workload whose standing matters to all others: one that was
// rolling out; and to a process that knows nothing yet, any that may be.
func (s Situation) unread(candidates []serving.StaleWorkload) Need {
	for w := range s.rollouts {
		if _, read := s.Standings[w]; !read {
			return Need{Workload: &w}
		}
	}
	for _, w := range candidates {
		if _, read := s.Standings[w.Workload]; s.first && !read && w.Workload.Restartable() {
			return Need{Workload: &w.Workload}
		}
	}
	return Need{}
}

// start returns the restart of the workload. The patch does what kubectl rollout
// restart does, if the workload is still as it was read.
func (s Situation) start(w serving.StaleWorkload) (*Start, error) {
	st, at := s.Standings[w.Workload], s.Now
	if after := w.Since.Add(time.Second); at.Before(after) { // by another clock
		at = after
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": st.uid, "resourceVersion": st.resourceVersion},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{AnnotationRestartedAt: at.UTC().Format(time.RFC3339)},
		}}},
	})
	if err != nil {
		return nil, err
	}
	start := &Start{Stale: w, UID: st.uid, Patch: patch, at: s.Now}
	for _, other := range s.Stale {
		if other.Workload == w.Workload { // it is for all Secrets that the workload serves an old certificate of
			start.keys = append(start.keys, KeyOf(other))
		}
	}
	return start, nil
}

// hold notes why a workload waits. An event reports it once, when it has waited so
// for a while: most reasons pass.
func (d *Decision) hold(s Situation, h Held) {
	d.Held = append(d.Held, h)
	key := holdKey{KeyOf(h.Stale), h.Hold}
	r, known := s.memory.holds[key]
	if !known {
		r.since = s.Now
	}
	if wait := h.Hold.reportAfter(s.Limits); wait > 0 && !r.notified && !s.Now.Before(r.since.Add(wait)) {
		r.notified = true
		d.Notify = append(d.Notify, h)
	}
	d.records[key] = r
}

// nextLook returns when to look again without a change: often while something
// rolls out or waits for that, rarely while something waits for people.
func (s Situation) nextLook(d Decision) time.Duration {
	next := time.Duration(0)
	at := func(wait time.Duration) {
		if next == 0 || wait < next {
			next = max(wait, time.Millisecond)
		}
	}
	for _, r := range d.rollouts {
		if r.stuck {
			at(s.Limits.Retry)
		} else {
			at(s.Limits.Poll)
		}
	}
	for _, h := range d.Held {
		r := d.records[holdKey{KeyOf(h.Stale), h.Hold}]
		if wait := h.Hold.reportAfter(s.Limits); wait > 0 && !r.notified {
			at(r.since.Add(wait).Sub(s.Now))
		}
		if again := h.Hold.lookAgain(s.Limits); again > 0 {
			at(again)
		}
	}
	return next
}
