package failing

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

const (
	// minRepeats is the number of restarts, or of deleted pods, from which they are reported.
	minRepeats = 3
	// patience is how long a pod may take to become ready, and how long a failed container must be
	// ready to count as repaired: without a readiness probe it is ready for a moment after each
	// start.
	patience = time.Minute
)

// Situation is the input of a decision about a namespace.
type Situation struct {
	Now time.Time
	// NotOptedIn: the webhook is not called for pods of the namespace, so its status on them is
	// forged.
	NotOptedIn bool
	// Pods are those of the namespace. Those that were not injected are ignored.
	Pods []*pods.Facts
	// Services are those of the namespace that ask for a certificate or have condition
	// api.ConditionPodsHealthy.
	Services []*corev1.Service
	// Rounds are the recent deletions.
	Rounds Rounds
	// Reported are the reports of the previous decision.
	Reported map[Key]Report
}

// Key identifies what is reported once: a container of the pods of one template, or, without a
// container, a workload whose pods are deleted.
type Key struct {
	Workload  pods.Workload
	Revision  string    // of the workload's template
	Pod       types.UID // of a bare pod
	Container string
}

// Report is what was reported about a Key. It is kept while the Key has pods, so that the condition
// does not change with each restart.
type Report struct {
	Text   string
	Exited bool // the text has the exit code
}

// Finding is a failure, for events and the condition.
type Finding struct {
	Key
	Report
	Reason string          // api.PodsFailing or api.PodsDeleted
	Pod    string          // a failing one; empty for api.PodsDeleted
	For    *corev1.Service // that the injection is for; nil if none asks
}

// Decision is the result for the namespace.
type Decision struct {
	Conditions []ConditionUpdate // conditions to write
	Notify     []Finding         // not reported by an event yet
	Failing    int               // number of workloads with failing pods, and of failing bare pods
	Reported   map[Key]Report    // replaces that of the Situation
	After      time.Duration     // when to decide again; 0: only after a change
}

// ConditionUpdate is the new condition of a Service; nil to remove it.
type ConditionUpdate struct {
	Service *corev1.Service
	Want    *state.Condition
}

// Decide decides which pods fail, the conditions of their Services, and which events are sent.
func Decide(s Situation) Decision {
	if s.NotOptedIn {
		s.Pods, s.Rounds = nil, nil
	}
	c := newCollector(s)
	d := Decision{Reported: map[Key]Report{}, After: c.after}
	for key, r := range s.Reported {
		template := key
		template.Container = ""
		if c.alive[template] {
			d.Reported[key] = r
		}
	}
	byService, workloads := map[*corev1.Service][]Finding{}, map[Key]bool{}
	for _, f := range slices.SortedFunc(maps.Values(c.found), compare) {
		r, reported := s.Reported[f.Key]
		if !reported {
			d.Notify = append(d.Notify, f)
		} else if r.Exited || !f.Exited {
			f.Report = r
		}
		d.Reported[f.Key] = f.Report
		byService[f.For] = append(byService[f.For], f)
		workloads[Key{Workload: f.Workload, Pod: f.Key.Pod}] = true
	}
	d.Failing = len(workloads)
	for _, svc := range s.Services {
		want := condition(byService[svc])
		if !state.Same(state.Of(svc, api.ConditionPodsHealthy), want) {
			d.Conditions = append(d.Conditions, ConditionUpdate{svc, want})
		}
	}
	return d
}

func compare(a, b Finding) int {
	return cmp.Or(a.Workload.Compare(b.Workload), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
}

// collector collects the findings of a namespace.
type collector struct {
	// requesters are the Services that ask for a certificate, by their name, and the oldest that
	// ask for each Secret, by its name.
	requesters, bySecret map[string]*corev1.Service
	found                map[Key]Finding
	alive                map[Key]bool // the templates of the pods, without a container
	after                time.Duration
}

func newCollector(s Situation) *collector {
	c := &collector{map[string]*corev1.Service{}, map[string]*corev1.Service{}, map[Key]Finding{}, map[Key]bool{}, 0}
	for _, svc := range slices.SortedFunc(slices.Values(s.Services), api.OlderFirst) {
		if !api.Asks(svc) {
			continue
		}
		c.requesters[svc.Name] = svc
		if secret, asks := api.Wants(svc); asks && c.bySecret[secret] == nil {
			c.bySecret[secret] = svc
		}
	}
	for _, pod := range slices.SortedFunc(slices.Values(s.Pods), func(a, b *pods.Facts) int { return cmp.Compare(a.Name, b.Name) }) {
		c.add(pod, s.Now)
	}
	for workload, r := range s.Rounds {
		c.after = sooner(c.after, r.Last.Add(forget).Sub(s.Now))
		if r.Deleted >= minRepeats {
			key := Key{Workload: workload}
			c.found[key] = Finding{key, Report{textOfDeletions(), true}, api.PodsDeleted, "", c.serviceOf(r.Injection)}
		}
	}
	return c
}

// add adds a pod. Of several pods of one template, the first with an exit code counts.
func (c *collector) add(pod *pods.Facts, now time.Time) {
	t := pod.Template.Value()
	key := Key{Workload: t.Workload, Revision: t.Revision()}
	if t.Workload.Bare() {
		key.Pod = pod.UID
	}
	c.alive[key] = true
	fails, wait := isFailing(pod, now)
	c.after = sooner(c.after, wait)
	if !fails {
		return
	}
	key.Container = pod.Trouble.Container
	exited := pod.Trouble.ExitCode != 0
	if before, known := c.found[key]; !known || exited && !before.Exited {
		c.found[key] = Finding{key, Report{textOf(pod), exited}, api.PodsFailing, pod.Name, c.serviceOf(t.Injection)}
	}
}

// serviceOf returns the Service of an injection: the one that the webhook named, or the oldest that
// asks for the Secret; or nil.
func (c *collector) serviceOf(injection pods.Injection) *corev1.Service {
	return cmp.Or(c.requesters[injection.Service], c.bySecret[injection.Secret])
}

// isFailing reports whether the pod fails. wait is the time until that changes without an event;
// not positive if it does not.
func isFailing(pod *pods.Facts, now time.Time) (fails bool, wait time.Duration) {
	t := pod.Trouble
	switch {
	case t == nil || pod.DeletionTimestamp != nil:
		return false, 0
	case t.ExitCode != 0 && t.Restarts >= minRepeats && t.Ready:
		wait = t.Started.Add(patience).Sub(now)
		return wait > 0, min(wait, patience)
	case t.ExitCode != 0 && t.Restarts >= minRepeats:
		return true, 0
	case t.Ready || t.Begun.IsZero():
		return false, 0
	}
	wait = t.Begun.Add(patience).Sub(now)
	return wait <= 0, min(wait, patience)
}

// sooner returns the shorter of two waits. A wait that is not positive is ignored.
func sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}
