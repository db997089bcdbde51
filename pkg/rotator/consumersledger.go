package rotator

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// consumersLedger is what this process has seen of the Secrets whose consumers it
// follows. What must outlive it stands in the Serving conditions.
type consumersLedger struct {
	mu      sync.Mutex
	secrets map[types.NamespacedName]*followed
}

// followed is one Secret.
type followed struct {
	cert         certificate
	begun, empty time.Time
	told         map[staleNews]bool // of this cert.leaf
	pods         map[types.UID]remembered
	wrote        map[types.UID]wroteServing // by Service

	states   map[State]int
	notAfter time.Time
	stale    []staleWorkload
}

// remembered is what is kept of a pod between two looks.
type remembered struct {
	seen    time.Time
	answers []answer // replaced, never changed
	reached string
}

func newConsumersLedger() *consumersLedger {
	return &consumersLedger{secrets: map[types.NamespacedName]*followed{}}
}

// open returns a copy of what is known of the Secret, and follows it from now on.
func (l *consumersLedger) open(key types.NamespacedName, now time.Time) followed {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.secrets[key]
	if f == nil {
		f = &followed{begun: now}
		l.secrets[key] = f
	}
	out := *f
	out.pods = maps.Clone(f.pods)
	return out
}

func (l *consumersLedger) follows(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.secrets[key] != nil
}

// put replaces what is known of the Secret, but for answers that have come in
// meanwhile.
func (l *consumersLedger) put(key types.NamespacedName, f followed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had := l.secrets[key]; had != nil {
		for uid, pod := range f.pods {
			pod.answers = had.pods[uid].answers
			f.pods[uid] = pod
		}
	}
	l.secrets[key] = &f
}

func (l *consumersLedger) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.secrets, key)
}

// record takes in what a pod answered. A pod that is not there any more, another
// one of the same name included, is passed over.
func (l *consumersLedger) record(v visitKey, answers []answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.secrets[v.secret]
	if f == nil {
		return
	}
	if pod, ok := f.pods[v.pod]; ok {
		pod.answers = merge(pod.answers, answers)
		f.pods[v.pod] = pod
	}
}

// merge returns the latest answer of each port, by port.
func merge(before, answers []answer) []answer {
	out := slices.Clone(before)
	for _, a := range answers {
		a.since = a.at
		i, found := slices.BinarySearchFunc(out, a.port, func(b answer, port uint16) int { return int(b.port) - int(port) })
		if !found {
			out = slices.Insert(out, i, a)
			continue
		}
		if out[i].same(a) {
			a.since = out[i].since
		}
		out[i] = a
	}
	return out
}

// stale returns the stale workloads of a namespace.
func (l *consumersLedger) stale(namespace string) []staleWorkload {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []staleWorkload
	for key, f := range l.secrets {
		if key.Namespace == namespace {
			out = append(out, f.stale...)
		}
	}
	slices.SortFunc(out, byWorkload)
	return out
}

// tally is what the metrics say of a namespace.
type tally struct {
	states   map[State]int
	notAfter time.Time // zero: nothing is stale
}

func (l *consumersLedger) tallies() map[string]tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]tally{}
	for key, f := range l.secrets {
		t, ok := out[key.Namespace]
		if !ok {
			t.states = map[State]int{}
		}
		for state, n := range f.states {
			t.states[state] += n
		}
		if !f.notAfter.IsZero() && (t.notAfter.IsZero() || f.notAfter.Before(t.notAfter)) {
			t.notAfter = f.notAfter
		}
		out[key.Namespace] = t
	}
	return out
}
