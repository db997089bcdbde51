package controller

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Ledger is what this process knows of the Secrets whose consumers it follows. What
// must outlive it is in the Serving conditions.
type Ledger struct {
	answered *cluster.Trigger // enqueues a Secret of which a pod has answered
	woken    *cluster.Trigger // enqueues a Secret of which a pod was woken

	mu       sync.Mutex
	secrets  map[types.NamespacedName]*followed
	silences *probe.Silences
}

// followed is one Secret, or the keys of the pods of one namespace.
type followed struct {
	memory   serving.Memory
	states   map[serving.State]int
	notAfter time.Time
	stale    []serving.StaleWorkload
	judged   bool
	seen     serving.Seen
}

// podKeysOf is the key of the pods of a namespace that have keys of their own.
func podKeysOf(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: pods.PodKey}
}

// NewLedger returns the ledger of a process that has just begun.
func NewLedger(c *cluster.Cluster) *Ledger {
	return &Ledger{
		answered: cluster.NewTrigger("answers of pods", c.Delay),
		woken:    cluster.NewTrigger("pods that were woken", min(c.Delay, rotationDelay)),
		secrets:  map[types.NamespacedName]*followed{},
		silences: probe.NewSilences(),
	}
}

// open returns a copy of what is known of the Secret, and follows it from now on.
func (l *Ledger) open(key types.NamespacedName, now time.Time) followed {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.secrets[key]
	if f == nil {
		f = &followed{memory: serving.NewMemory(now)}
		l.secrets[key] = f
	}
	out := *f
	out.memory = f.memory.Clone()
	return out
}

func (l *Ledger) follows(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.secrets[key] != nil
}

// put replaces what is known of the Secret, but for answers that have come in
// meanwhile.
func (l *Ledger) put(key types.NamespacedName, f followed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had := l.secrets[key]; had != nil {
		f.memory.TakeAnswers(had.memory)
		f.judged = f.judged || had.judged
	}
	l.secrets[key] = &f
}

func (l *Ledger) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.secrets, key)
}

// Record takes in what a pod answered, and has its Secret looked at.
func (l *Ledger) Record(v probe.Visit, answers []probe.Answer) {
	l.mu.Lock()
	l.silences.Record(v, answers)
	f := l.secrets[v.Secret]
	if f != nil {
		f.memory.Record(v.Pod, answers)
	}
	l.mu.Unlock()
	if f != nil {
		l.answered.Enqueue(v.Secret)
	}
}

// seen returns what was seen of the pods of a Secret.
func (l *Ledger) seen(key types.NamespacedName) serving.Seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.secrets[key]; f != nil {
		return f.seen
	}
	return serving.Seen{}
}

// podKeys returns the keys of all namespaces in which pods with keys of their own are
// followed.
func (l *Ledger) podKeys() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []types.NamespacedName
	for key := range l.secrets {
		if key.Name == pods.PodKey {
			keys = append(keys, key)
		}
	}
	return keys
}

// silent returns those of the pods that do not answer in time, nil if none.
func (l *Ledger) silent(all []*pods.Facts) map[types.UID]probe.Silence {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out map[types.UID]probe.Silence
	for _, pod := range all {
		silence := l.silences.Of(pod.UID)
		if silence == (probe.Silence{}) {
			continue
		}
		if out == nil {
			out = map[types.UID]probe.Silence{}
		}
		out[pod.UID] = silence
	}
	return out
}

// Woken takes in that a pod's kubelet was made to update what the pod mounts of the
// Secret, and has the pod dialled soon.
func (l *Ledger) Woken(secret types.NamespacedName, pod types.UID, at time.Time) {
	l.mu.Lock()
	f := l.secrets[secret]
	known := f != nil && f.memory.Woken(pod, at)
	l.mu.Unlock()
	if known {
		l.woken.Enqueue(secret)
	}
}

// Rotation returns the latest change of the Secret's certificate; false if none is
// known.
func (l *Ledger) Rotation(secret types.NamespacedName) (serving.Rotation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.secrets[secret]; f != nil {
		return f.memory.Rotation()
	}
	return serving.Rotation{}, false
}

// Serves reports whether the pod was last seen to serve the leaf.
func (l *Ledger) Serves(secret types.NamespacedName, pod types.UID, leaf string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.secrets[secret]
	return f != nil && f.memory.Serves(pod, leaf)
}

// Stale returns the stale workloads of a namespace.
func (l *Ledger) Stale(namespace string) []serving.StaleWorkload {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []serving.StaleWorkload
	for key, f := range l.secrets {
		if key.Namespace == namespace {
			out = append(out, f.stale...)
		}
	}
	slices.SortFunc(out, serving.StaleWorkload.Compare)
	return out
}

// AllStale returns the stale workloads by namespace.
func (l *Ledger) AllStale() map[string][]serving.StaleWorkload {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string][]serving.StaleWorkload{}
	for key, f := range l.secrets {
		if len(f.stale) > 0 {
			out[key.Namespace] = append(out[key.Namespace], f.stale...)
		}
	}
	return out
}

// Judged reports whether this process knows of all stale workloads of the Secret.
func (l *Ledger) Judged(key types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.secrets[key]
	return f != nil && f.judged
}
