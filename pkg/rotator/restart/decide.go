package restart

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Situation is the input of a decision about a namespace. What is nil or missing in it was not read
// yet: the Decision lists what to read next.
type Situation struct {
	Now    time.Time
	Limits Limits

	Stale []serving.StaleWorkload
	// Labels are the labels of a stale workload's pod, by the pod's name.
	Labels    map[string]map[string]string
	Workloads map[pods.Workload]WorkloadStatus
	Services  map[string]ServiceStatus
	Budgets   []Budget // nil: not read; those after one that is TooLarge, or after MaxBudgets+1, may be missing
	// BudgetProblem is the error if listing the budgets is forbidden, or empty.
	BudgetProblem string

	// free is the number of --max-restarts places left over by other namespaces: by their rollouts,
	// and by those that have waited for a place for longer.
	free int
	// leading is when this process became the leader.
	leading time.Time
	// first: this process makes its first decision about the namespace.
	first    bool
	rollouts map[pods.Workload]rollout // as of the last decision
	history  history
}

// Need is a workload, a Service or the budgets, to be read before a decision can be made; zero if nothing.
type Need struct {
	Workload pods.Workload
	Service  string
	Budgets  bool
}

// None reports whether nothing must be read.
func (n Need) None() bool { return n == Need{} }

// Decision is the result for a namespace.
type Decision struct {
	Needs []Need // to be read, each once; if not empty, the rest is not valid
	Start *Start // at most one at a time
	// Held are the other workloads that request a restart, in order. Notify are those of them that
	// an event is to report.
	Held, Notify []Held
	// Stuck are the rollouts that are stuck since this decision.
	Stuck []Stuck
	// After is when to decide again; 0: only after a change.
	After time.Duration

	// rollouts are the current ones, including the one that is started.
	rollouts map[pods.Workload]rollout
	holds    map[holdKey]holdState
	at       time.Time     // Situation.Now
	asked    map[Need]bool // Needs
}

// Start is a restart.
type Start struct {
	Stale serving.StaleWorkload
	UID   types.UID // of the workload
	// Patch is a strategic merge patch, which fails if the workload has changed since it was read.
	Patch []byte
	// keys are all Keys that the restart serves.
	keys []Key
	at   time.Time
}

// Held is a workload that is not restarted now.
type Held struct {
	Stale   serving.StaleWorkload
	UID     types.UID // of the workload, empty if it was not read
	Hold    Hold
	Message string // continues "it is not restarted: "
}

// Stuck is a restarted workload whose rollout is stuck.
type Stuck struct {
	Workload pods.Workload
	UID      types.UID
	Message  string // continues "the rollout is not complete: "
	Progress string // of the rollout
}

// Decide decides which workload is restarted now, why the others are not, and when to decide again.
//
// Usually the first workload can be restarted, and the others need not be read. If workloads are held for
// what was read, the next that many are read at a time. So the calls until a decision are few, and at most
// twice as many workloads are read as one after the other.
func Decide(s Situation) Decision {
	d := Decision{holds: map[holdKey]holdState{}, at: s.Now, asked: map[Need]bool{}}
	candidates := s.candidates()
	if s.unread(candidates, &d); len(d.Needs) > 0 {
		return Decision{Needs: d.Needs}
	}
	rollouts := s.track(candidates, &d)
	needy, inVain := 0, 0 // workloads that need something, and those that were read and are held
	for _, w := range candidates {
		if needy >= max(1, inVain) {
			break
		}
		h, need := s.evaluate(w, rollouts)
		switch {
		case !need.None():
			d.need(need)
			needy++
		case h.Hold != "":
			d.hold(s, h)
			if _, read := s.Workloads[w.Workload]; read {
				inVain++
			}
		case d.Start == nil:
			start, err := s.start(w)
			if err != nil {
				d.hold(s, Held{Stale: w, Hold: holdRefused, Message: err.Error()})
				continue
			}
			d.Start = start
			rollouts[w.Workload] = rollout{ours: true, place: true, begun: s.Now, progressed: s.Now} // added early, so that the others wait for it
		}
	}
	if len(d.Needs) > 0 {
		return Decision{Needs: d.Needs}
	}
	d.rollouts = rollouts
	d.After = s.nextLook(d)
	return d
}

// need adds what must be read.
func (d *Decision) need(n Need) {
	if !d.asked[n] {
		d.asked[n] = true
		d.Needs = append(d.Needs, n)
	}
}

// candidates returns the workloads that request a restart that would help, sorted by how long they
// have been stale.
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

// unread adds the workloads whose status affects all others: those that were rolling out; and in the
// first decision, all that may be.
func (s Situation) unread(candidates []serving.StaleWorkload, d *Decision) {
	for _, w := range slices.SortedFunc(maps.Keys(s.rollouts), func(a, b pods.Workload) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	}) {
		if _, read := s.Workloads[w]; !read {
			d.need(Need{Workload: w})
		}
	}
	for _, w := range candidates {
		if _, read := s.Workloads[w.Workload]; s.first && !read && w.Workload.Restartable() {
			d.need(Need{Workload: w.Workload})
		}
	}
}

// start returns the restart of the workload. The patch does what kubectl rollout restart does, and
// fails if the workload has changed since it was read.
func (s Situation) start(w serving.StaleWorkload) (*Start, error) {
	st, at := s.Workloads[w.Workload], s.Now
	if after := w.Since.Add(time.Second); at.Before(after) { // the clocks differ
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
		if other.Workload == w.Workload { // one restart serves all stale certificates of the workload
			start.keys = append(start.keys, KeyOf(other))
		}
	}
	return start, nil
}

// hold adds a workload that waits. An event reports it once, after the hold has lasted for a while:
// most holds end soon.
func (d *Decision) hold(s Situation, h Held) {
	d.Held = append(d.Held, h)
	key := holdKey{KeyOf(h.Stale), h.Hold}
	r, known := s.history.holds[key]
	if !known {
		r.since = s.Now
	}
	if wait := h.Hold.reportAfter(s.Limits); wait > 0 && !r.notified && !s.Now.Before(r.since.Add(wait)) {
		r.notified = true
		d.Notify = append(d.Notify, h)
	}
	d.holds[key] = r
}

// nextLook returns when to decide again without a change: soon if there is a rollout, later if
// something waits for an action.
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
		r := d.holds[holdKey{KeyOf(h.Stale), h.Hold}]
		if wait := h.Hold.reportAfter(s.Limits); wait > 0 && !r.notified {
			at(r.since.Add(wait).Sub(s.Now))
		}
		if again := h.Hold.lookAgain(s.Limits); again > 0 {
			at(again)
		}
	}
	return next
}
