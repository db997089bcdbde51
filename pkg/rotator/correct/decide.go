package correct

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

const (
	// settle is how old a fact must be before pods are deleted for it, so that the
	// webhooks' caches have it when the pods are made anew. A fact's time is in whole
	// seconds, so that this is at least one.
	settle = 2 * time.Second
	// amnesty is how long an attempt that was cleared is not blamed again.
	amnesty = time.Hour
)

// Situation is what a decision about a namespace is made from.
type Situation struct {
	Now time.Time
	// Enabled: attempts are withheld. If not, events and metrics only report them.
	Enabled bool
	// NotOptedIn: the webhook is not asked about pods of the namespace, so whatever they say
	// of it is not so.
	NotOptedIn bool
	// Pods are those of the namespace. Of no concern are those that neither crash nor
	// have an attempt.
	Pods []*pods.Facts
	// Services are those of the namespace that ask for a Secret or have condition
	// api.ConditionFlags.
	Services []Service
	// Answers are the latest of each port, from dials of Decision.Dial.
	Answers map[types.UID][]probe.Answer
	Memory  Memory
	// Readings are those of the decision before.
	Readings Readings
}

// Service is a Service as this process wrote it last.
type Service struct {
	*corev1.Service
	// Seen are the facts of its condition api.ConditionFlags in the cache.
	Seen state.Flags
}

// Memory is what was told that no condition says.
type Memory map[Notice]bool

// Notice is what one event tells.
type Notice struct {
	Attempt  string
	Workload pods.Workload
	Pod      types.UID // of a bare pod
}

// Decision is what follows for the namespace.
type Decision struct {
	// Changes are the conditions to be written.
	Changes []Change
	// Told are findings that no condition holds.
	Told []Finding
	// Delete are pods that crash, or serve plaintext, although their attempt is withheld.
	Delete []*pods.Facts
	// Dial are pods to be dialled.
	Dial []probe.Visit
	// Withheld is how many attempts are withheld.
	Withheld int
	Memory   Memory
	Readings Readings
	// After is when to look again if nothing happens; 0 for never.
	After time.Duration
}

// Change is a new condition of a Service.
type Change struct {
	Service *corev1.Service
	Want    *state.Condition // nil for none
	// Findings are to be told when it is written.
	Findings []Finding
}

// Finding is what was found out about an attempt.
type Finding struct {
	Verdict   state.Verdict
	Attempt   string
	Container string
	Workload  pods.Workload // zero for a bare pod
	Pod       string        // one of its pods
	PodUID    types.UID
	Service   *corev1.Service // nil if no Service asks for its Secret
	ExitCode  int32
	Evidence  Evidence // empty if the verdict is state.VerdictCleared
	Line      string   // that is the evidence, or empty
}

// Decide says which attempts are withheld, and which pods are deleted.
func Decide(s Situation) Decision {
	n := newNamespace(s)
	d := Decision{Memory: Memory{}, Dial: n.dial, After: n.after}
	for notice := range s.Memory {
		if n.alive[notice.Attempt] {
			d.Memory[notice] = true
		}
	}
	for i := range n.Services {
		n.decideService(&n.Services[i], &d)
	}
	for _, key := range n.keys[nil] {
		if n.groups[key].worst() != nil {
			n.tell(&d, key, state.VerdictSuspected)
		}
	}
	d.Readings = n.said.now
	return d
}

// decideService decides about one Service's facts, and the pods that they concern.
func (n *namespace) decideService(svc *Service, d *Decision) {
	have := state.Of(svc.Service, api.ConditionFlags)
	if _, asks := api.Wants(svc.Service); !asks {
		if have != nil {
			d.Changes = append(d.Changes, Change{Service: svc.Service})
		}
		return
	}
	ledger := ledger{facts: state.FlagsOf(svc.Service), n: n}
	ledger.enable()
	var findings []Finding
	for _, key := range n.keys[svc.Service] {
		g := n.groups[key]
		switch verdict, room := ledger.decide(key, g); {
		case !room:
			n.tell(d, key, state.VerdictSuspected)
		case verdict != "":
			findings = append(findings, g.finding(key, verdict))
			n.note(d, key)
		}
		n.decidePods(d, key, ledger.get(key), svc.Seen)
	}
	for _, f := range ledger.facts {
		if f.Verdict == state.VerdictWithheld {
			d.Withheld++
		}
	}
	want := condition(ledger.facts)
	if !state.Same(have, want) {
		d.Changes = append(d.Changes, Change{svc.Service, want, findings})
	}
}

// decidePods decides which pods are deleted because of the fact, nil if there is none.
// seen are the facts that the cache shows.
func (n *namespace) decidePods(d *Decision, key groupKey, fact *state.Attempt, seen state.Flags) {
	faults := n.groups[key].faults
	switch {
	case fact == nil || len(faults) == 0:
	case fact.Verdict == state.VerdictCleared:
		d.After = sooner(d.After, fact.Since.Add(amnesty).Sub(n.Now))
	case fact.Verdict == state.VerdictWithheld:
		if wait := fact.Since.Add(settle).Sub(n.Now); wait > 0 || !seen.Withholds(key.attempt) {
			d.After = sooner(d.After, max(wait, settle/2))
			return
		}
		if key.workload.Bare() || !key.is(fact.Workload) { // nobody makes them anew, or nothing has told of them
			n.tell(d, key, state.VerdictWithheld)
		}
		for _, f := range faults {
			if !f.pod.Template.Value().Workload.Bare() && f.deletes {
				d.Delete = append(d.Delete, f.pod)
			}
		}
	}
}

// sooner returns the shorter of two waits. One that is not positive is none.
func sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}

// tell reports about the group what nothing has reported yet.
func (n *namespace) tell(d *Decision, key groupKey, verdict state.Verdict) {
	for _, f := range n.groups[key].faults {
		notice := noticeOf(key.attempt, f.pod)
		if d.Memory[notice] {
			continue
		}
		d.Memory[notice] = true
		d.Told = append(d.Told, findingOf(f, key, verdict))
	}
}

// note remembers what a condition's findings tell.
func (n *namespace) note(d *Decision, key groupKey) {
	if f := n.groups[key].worst(); f != nil {
		d.Memory[noticeOf(key.attempt, f.pod)] = true
	}
}

func noticeOf(attempt string, pod *pods.Facts) Notice {
	notice := Notice{Attempt: attempt, Workload: pod.Template.Value().Workload}
	if notice.Workload.Bare() {
		notice.Pod = pod.UID
	}
	return notice
}
