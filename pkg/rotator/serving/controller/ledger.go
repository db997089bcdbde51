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

// Ledger is what this process knows of the Secrets whose consumers it follows, and of the
// pods with keys of their own. What must outlive it is in the Serving conditions.
type Ledger struct {
	answered *cluster.Trigger // enqueues a key of which a pod has answered
	woken    *cluster.Trigger // enqueues a Secret of which a pod was woken

	mu       sync.Mutex
	keys     map[pods.NamespacedKey]*followed
	silences *probe.Silences
}

// followed is one Secret, or the keys of the pods of one namespace.
type followed struct {
	memory   serving.Memory
	states   map[serving.State]int
	notAfter time.Time
	stale    []serving.StaleWorkload
	seen     serving.Seen
}

// NewLedger returns the ledger of a process that has just begun.
func NewLedger(c *cluster.Cluster) *Ledger {
	return &Ledger{
		answered: cluster.NewTrigger("answers of pods", c.Delay),
		woken:    cluster.NewTrigger("pods that were woken", min(c.Delay, rotationDelay)),
		keys:     map[pods.NamespacedKey]*followed{},
		silences: probe.NewSilences(),
	}
}

// open returns a copy of what is known of the key, and follows it from now on.
func (l *Ledger) open(key pods.NamespacedKey, now time.Time) followed {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.keys[key]
	if f == nil {
		f = &followed{memory: serving.NewMemory(now)}
		l.keys[key] = f
	}
	out := *f
	out.memory = f.memory.Clone()
	return out
}

func (l *Ledger) follows(key pods.NamespacedKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys[key] != nil
}

// put replaces what is known of the key, but for answers that have come in
// meanwhile.
func (l *Ledger) put(key pods.NamespacedKey, f followed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had := l.keys[key]; had != nil {
		f.memory.TakeAnswers(had.memory)
	}
	l.keys[key] = &f
}

func (l *Ledger) forget(key pods.NamespacedKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, key)
}

// Record takes in what a pod answered, and has its key looked at.
func (l *Ledger) Record(v probe.Visit, answers []probe.Answer) {
	l.mu.Lock()
	l.silences.Record(v, answers)
	f := l.keys[v.Of]
	if f != nil {
		f.memory.Record(v.Pod, answers)
	}
	l.mu.Unlock()
	if f != nil {
		l.answered.Enqueue(nameOf(v.Of))
	}
}

// seen returns what was seen of the pods with the key.
func (l *Ledger) seen(key pods.NamespacedKey) serving.Seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.keys[key]; f != nil {
		return f.seen
	}
	return serving.Seen{}
}

// podKeys returns the keys of all namespaces in which pods with keys of their own are
// followed.
func (l *Ledger) podKeys() []pods.NamespacedKey {
	return l.which(func(key pods.NamespacedKey) bool { return key.Key == pods.PodKey })
}

// secretsIn returns the keys of the Secrets of a namespace that are followed.
func (l *Ledger) secretsIn(namespace string) []pods.NamespacedKey {
	return l.which(func(key pods.NamespacedKey) bool {
		_, ok := key.Key.Secret()
		return ok && key.Namespace == namespace
	})
}

func (l *Ledger) which(is func(pods.NamespacedKey) bool) []pods.NamespacedKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []pods.NamespacedKey
	for key := range l.keys {
		if is(key) {
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
	f := l.keys[ofSecret(secret)]
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
	if f := l.keys[ofSecret(secret)]; f != nil {
		return f.memory.Rotation()
	}
	return serving.Rotation{}, false
}

// Serves reports whether the pod was last seen to serve the leaf.
func (l *Ledger) Serves(secret types.NamespacedName, pod types.UID, leaf string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.keys[ofSecret(secret)]
	return f != nil && f.memory.Serves(pod, leaf)
}

// Stale returns the stale workloads of a namespace.
func (l *Ledger) Stale(namespace string) []serving.StaleWorkload {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []serving.StaleWorkload
	for key, f := range l.keys {
		if key.Namespace == namespace {
			out = append(out, f.stale...)
		}
	}
	slices.SortFunc(out, serving.StaleWorkload.Compare)
	return out
}
