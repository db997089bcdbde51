package rotator

import (
	"cmp"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// restartSituation is all that one look at the restarts of a namespace is made
// from. What is nil in it or missing was not read yet: a decision says what it
// needs next, so that nothing is read in vain.
type restartSituation struct {
	now    time.Time
	limits restartLimits
	// free is how many workloads may be rolling in this namespace and all others
	// that have no place yet, those of rollouts not counted.
	free int
	// first: this process has not decided anything about the namespace before.
	first bool

	stale []staleWorkload
	// labels are those of a stale workload's pod, by the pod's name.
	labels    map[string]map[string]string
	standings map[Workload]standing
	services  map[string]serviceStanding
	budgets   []policyv1.PodDisruptionBudget // nil: not read
	// budgetProblem is why they may not be, or empty.
	budgetProblem string

	rollouts map[Workload]rollout // as of the last look
	memory   restartMemory
}

// restartMemory is what a process remembers of a namespace's restarts. Losing it
// costs an event told once more: that a workload was restarted stands in its
// template.
type restartMemory struct {
	// restarted holds what this process restarted, and when.
	restarted map[restartKey]time.Time
	// refused holds restarts that the API server refused.
	refused map[restartKey]refusal
	holds   map[holdKey]holdRecord
}

// restartKey is what is restarted at most once.
type restartKey struct {
	workload     Workload
	pod          string // of bare pods, which are no workload
	secret, leaf string
}

type refusal struct {
	at  time.Time
	why string
}

type holdKey struct {
	restartKey
	hold hold
}

type holdRecord struct {
	since time.Time
	told  bool
}

// serviceStanding is what the API server says of the Service that asks for a
// Secret.
type serviceStanding struct {
	ready bool
	leaf  string // that its condition names
}

// restartLimits are those of Config.
type restartLimits struct {
	max        int // workloads that roll at a time, in the cluster
	poll       time.Duration
	retry      time.Duration
	stuckAfter time.Duration
	patience   time.Duration
}

// restartNeed is what must be read before a decision can be made; nothing if all
// is nil.
type restartNeed struct {
	workload *Workload
	service  string
	budgets  bool
}

func (n restartNeed) none() bool { return n == restartNeed{} }

// restartDecision is what follows for a namespace.
type restartDecision struct {
	need  restartNeed    // if something, the rest means nothing
	start *staleWorkload // at most one at a time
	// holds are why the others are not restarted, in order.
	holds []heldWorkload
	tell  []heldWorkload // of those, an event each
	// rollouts are all that go on; stuck are those of them that got stuck now.
	rollouts map[Workload]rollout
	stuck    []Workload
	records  map[holdKey]holdRecord
	// after is when to look again, 0 if nothing is waited for.
	after time.Duration
}

type heldWorkload struct {
	stale staleWorkload
	verdict
}

// decideRestarts says what is restarted now, why the rest is not, and when to look
// again.
func decideRestarts(s restartSituation) restartDecision {
	d := restartDecision{records: map[holdKey]holdRecord{}}
	candidates := s.candidates()
	if d.need = s.unread(candidates); !d.need.none() {
		return d
	}
	d.rollouts = s.track(candidates, &d)
	for _, w := range candidates {
		v, need := s.judge(w, d.rollouts)
		switch {
		case !need.none():
			return restartDecision{need: need}
		case v.hold != "":
			d.hold(s, w, v)
		case d.start == nil:
			d.start = &w
			d.rollouts[w.Workload] = rollout{ours: true, progressed: s.now} // before it is; the others wait for it
		}
	}
	d.after = s.nextLook(d)
	return d
}

// candidates returns the workloads that ask to be restarted, those first that are
// stale for longest.
func (s restartSituation) candidates() []staleWorkload {
	var out []staleWorkload
	for _, w := range s.stale {
		if w.OnRotate == api.OnRotateRestart {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b staleWorkload) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.Name, b.Workload.Name),
			cmp.Compare(a.Secret, b.Secret), cmp.Compare(a.Pod, b.Pod))
	})
	return out
}

// unread returns a workload whose standing matters to all others: one that was
// rolling out; and to a process that knows nothing yet, any that may be.
func (s restartSituation) unread(candidates []staleWorkload) restartNeed {
	for w := range s.rollouts {
		if _, read := s.standings[w]; !read {
			return restartNeed{workload: &w}
		}
	}
	for _, w := range candidates {
		if _, read := s.standings[w.Workload]; s.first && !read && w.Workload.Restartable() {
			return restartNeed{workload: &w.Workload}
		}
	}
	return restartNeed{}
}

// hold notes why a workload waits, and tells of it once when it has waited so for
// patience: most reasons pass.
func (d *restartDecision) hold(s restartSituation, w staleWorkload, v verdict) {
	h := heldWorkload{w, v}
	d.holds = append(d.holds, h)
	key := holdKey{keyOf(w), v.hold}
	r, known := s.memory.holds[key]
	if !known {
		r.since = s.now
	}
	if !r.told && v.hold.told() && !s.now.Before(r.since.Add(s.limits.patience)) {
		r.told = true
		d.tell = append(d.tell, h)
	}
	d.records[key] = r
}

func keyOf(w staleWorkload) restartKey {
	k := restartKey{workload: w.Workload, secret: w.Secret, leaf: w.Leaf}
	if w.Workload == (Workload{}) {
		k.pod = w.Pod
	}
	return k
}

// nextLook returns when to look again without a change: often at what rolls or
// waits for that, rarely at what waits for people.
func (s restartSituation) nextLook(d restartDecision) time.Duration {
	next := time.Duration(0)
	at := func(wait time.Duration) {
		if next == 0 || wait < next {
			next = max(wait, time.Millisecond)
		}
	}
	for _, r := range d.rollouts {
		if r.stuck {
			at(s.limits.retry)
		} else {
			at(s.limits.poll)
		}
	}
	for _, h := range d.holds {
		r := d.records[holdKey{keyOf(h.stale), h.hold}]
		if h.hold.told() && !r.told {
			at(r.since.Add(s.limits.patience).Sub(s.now))
		}
		if again := h.hold.lookAgain(s.limits); again > 0 {
			at(again)
		}
	}
	return next
}
