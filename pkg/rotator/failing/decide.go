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
	// enough is how many restarts, or deleted pods, are reported.
	enough = 3
	// patience is how long a pod may take to become ready, and how long a container that
	// failed has to be ready before it counts as repaired: without a readiness probe it is
	// ready for a moment after each start.
	patience = time.Minute
)

// Situation is what a decision about a namespace is made from.
type Situation struct {
	Now time.Time
	// NotOptedIn: the webhook is not asked about pods of the namespace, so whatever they say
	// of it is not so.
	NotOptedIn bool
	// Pods are those of the namespace. Of no concern are those that were given nothing.
	Pods []*pods.Facts
	// Services are those of the namespace that ask for a certificate or have condition
	// api.ConditionPodsHealthy.
	Services []*corev1.Service
	// Rounds are the deletions that are not old.
	Rounds Rounds
	// Records are those of the decision before.
	Records map[Key]Record
}

// Key is what is reported once: a container of the pods of one template, or, without a container,
// a workload whose pods are deleted.
type Key struct {
	Workload  pods.Workload
	Revision  string    // of the workload's template
	Pod       types.UID // of a bare pod
	Container string
}

// Record is what is remembered of a Key that was reported, as long as it has pods: the condition
// does not change with each restart.
type Record struct {
	Text   string
	Exited bool // the text quotes how it exited
}

// Finding is a failure, as events and the condition report it.
type Finding struct {
	Key
	Record
	Reason string          // api.PodsFailing or api.PodsDeleted
	Pod    string          // one that fails; empty for api.PodsDeleted
	For    *corev1.Service // for which the pods were given something; nil if none asks
}

// Decision is what follows for the namespace.
type Decision struct {
	Changes []Change       // conditions to write
	Notify  []Finding      // what no event has reported
	Failing int            // how many workloads have pods that fail, and bare pods that do
	Records map[Key]Record // they replace those of the Situation
	After   time.Duration  // when to look again if nothing happens; 0 for never
}

// Change is the new condition of a Service, nil for none.
type Change struct {
	Service *corev1.Service
	Want    *state.Condition
}

// Decide says which pods fail, what the conditions of the Services say of it, and what events
// report.
func Decide(s Situation) Decision {
	if s.NotOptedIn {
		s.Pods, s.Rounds = nil, nil
	}
	l := newLook(s)
	d := Decision{Records: map[Key]Record{}, After: l.after}
	for key, r := range s.Records {
		template := key
		template.Container = ""
		if l.alive[template] {
			d.Records[key] = r
		}
	}
	said, workloads := map[*corev1.Service][]Finding{}, map[Key]bool{}
	for _, f := range slices.SortedFunc(maps.Values(l.found), compare) {
		r, reported := s.Records[f.Key]
		if !reported {
			d.Notify = append(d.Notify, f)
		} else if r.Exited || !f.Exited {
			f.Record = r
		}
		d.Records[f.Key] = f.Record
		said[f.For] = append(said[f.For], f)
		workloads[Key{Workload: f.Workload, Pod: f.Key.Pod}] = true
	}
	d.Failing = len(workloads)
	for _, svc := range s.Services {
		want := condition(said[svc])
		if !state.Same(state.Of(svc, api.ConditionPodsHealthy), want) {
			d.Changes = append(d.Changes, Change{svc, want})
		}
	}
	return d
}

func compare(a, b Finding) int {
	return cmp.Or(a.Workload.Compare(b.Workload), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
}

// look is what is found in a namespace.
type look struct {
	// asking are the Services that ask for a certificate, by their name, and the oldest that
	// ask for each Secret, by its name.
	asking, asked map[string]*corev1.Service
	found         map[Key]Finding
	alive         map[Key]bool // the templates of the pods, without a container
	after         time.Duration
}

func newLook(s Situation) *look {
	l := &look{map[string]*corev1.Service{}, map[string]*corev1.Service{}, map[Key]Finding{}, map[Key]bool{}, 0}
	for _, svc := range slices.SortedFunc(slices.Values(s.Services), api.OlderFirst) {
		if !api.Asks(svc) {
			continue
		}
		l.asking[svc.Name] = svc
		if secret, asks := api.Wants(svc); asks && l.asked[secret] == nil {
			l.asked[secret] = svc
		}
	}
	for _, pod := range slices.SortedFunc(slices.Values(s.Pods), func(a, b *pods.Facts) int { return cmp.Compare(a.Name, b.Name) }) {
		l.add(pod, s.Now)
	}
	for workload, r := range s.Rounds {
		l.after = sooner(l.after, r.Last.Add(forget).Sub(s.Now))
		if r.Deleted >= enough {
			key := Key{Workload: workload}
			l.found[key] = Finding{key, Record{textOfDeletions(), true}, api.PodsDeleted, "", l.serviceOf(r.Given)}
		}
	}
	return l
}

// add takes in a pod. Of several of one template the first counts that says how it exited.
func (l *look) add(pod *pods.Facts, now time.Time) {
	t := pod.Template.Value()
	key := Key{Workload: t.Workload, Revision: t.Revision()}
	if t.Workload.Bare() {
		key.Pod = pod.UID
	}
	l.alive[key] = true
	fails, wait := judge(pod, now)
	l.after = sooner(l.after, wait)
	if !fails {
		return
	}
	key.Container = pod.Trouble.Container
	exited := pod.Trouble.ExitCode != 0
	if before, known := l.found[key]; !known || exited && !before.Exited {
		l.found[key] = Finding{key, Record{textOf(pod), exited}, api.PodsFailing, pod.Name, l.serviceOf(t.Given)}
	}
}

// serviceOf returns the Service for which pods were given something: the one that the webhook
// named, or the oldest that asks for the Secret; nil if there is none.
func (l *look) serviceOf(given pods.Given) *corev1.Service {
	return cmp.Or(l.asking[given.Service], l.asked[given.Secret])
}

// judge reports whether the pod fails. wait is until that changes by time alone, not positive if
// it does not.
func judge(pod *pods.Facts, now time.Time) (fails bool, wait time.Duration) {
	t := pod.Trouble
	switch {
	case t == nil || pod.DeletionTimestamp != nil:
		return false, 0
	case t.ExitCode != 0 && t.Restarts >= enough && t.Ready:
		wait = t.Started.Add(patience).Sub(now)
		return wait > 0, min(wait, patience)
	case t.ExitCode != 0 && t.Restarts >= enough:
		return true, 0
	case t.Ready || t.Begun.IsZero():
		return false, 0
	}
	wait = t.Begun.Add(patience).Sub(now)
	return wait <= 0, min(wait, patience)
}

// sooner returns the shorter of two waits. One that is not positive is none.
func sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}
