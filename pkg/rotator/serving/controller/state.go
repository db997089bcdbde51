package controller

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// State is what this process knows of the Secrets whose consumers it tracks, and of the pods with
// their own keys. The Serving conditions store what must outlive it.
type State struct {
	answered *cluster.Trigger // enqueues a key after an answer of a pod
	woken    *cluster.Trigger // enqueues a Secret after a pod was woken

	mu               sync.Mutex
	keys             map[pods.NamespacedKey]*keyState
	unresponsivePods *probe.UnresponsivePods

	keyless struct {
		sync.Mutex
		known map[pods.NamespacedKey]map[types.UID]string // by the last decisions
	}
}

// keyState is the state of one Secret, or of the pods' own keys in one namespace.
type keyState struct {
	state    serving.KeyState
	states   map[serving.State]int
	guards   map[serving.GuardState]int
	notAfter time.Time
	stale    []serving.StaleWorkload
	seen     serving.Seen
}

// NewState returns the state of a new process.
func NewState(c *cluster.Cluster) *State {
	s := &State{
		answered:         cluster.NewTrigger("answers of pods", c.Delay),
		woken:            cluster.NewTrigger("pods that were woken", min(c.Delay, rotationDelay)),
		keys:             map[pods.NamespacedKey]*keyState{},
		unresponsivePods: probe.NewUnresponsivePods(),
	}
	s.keyless.known = map[pods.NamespacedKey]map[types.UID]string{}
	return s
}

// open returns a copy of the key's state, and tracks the key from now on.
func (s *State) open(key pods.NamespacedKey, now time.Time) keyState {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.keys[key]
	if f == nil {
		f = &keyState{state: serving.NewKeyState(now)}
		s.keys[key] = f
	}
	out := *f
	out.state = f.state.Clone()
	return out
}

// findKeyless returns the pods without a key of the Services of a key (serving.Keyless), and records that a decision
// knows them.
func (s *State) findKeyless(key pods.NamespacedKey, services []*corev1.Service, all func() []*pods.Facts) map[types.UID]string {
	s.keyless.Lock()
	defer s.keyless.Unlock()
	found := serving.Keyless(services, all)
	s.keyless.known[key] = found
	return found
}

// PodsChanged has those of the Services decided again whose pods without a key are not those that the last decision
// knew. asking are the Services of the namespace that ask for a certificate.
func (s *State) PodsChanged(namespace string, asking []*corev1.Service, all func() []*pods.Facts) {
	if len(asking) == 0 {
		return
	}
	s.keyless.Lock()
	defer s.keyless.Unlock() // also while they are found: no decision comes between that and the comparison
	if len(s.keyless.known) == 0 {
		return // as without --verify-consumers
	}
	found := serving.Keyless(asking, all)
	for _, svc := range asking {
		for _, part := range partsOf(svc) {
			if part == pods.PodKey && !api.WantsPodKeys(svc) {
				continue
			}
			key := pods.NamespacedKey{Namespace: namespace, Key: part}
			if known, decided := s.keyless.known[key]; decided && known[svc.UID] != found[svc.UID] {
				s.answered.Enqueue(nameOf(key))
			}
		}
	}
}

func (s *State) follows(key pods.NamespacedKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key] != nil
}

// put replaces the key's state, except for answers that have arrived since open.
func (s *State) put(key pods.NamespacedKey, f keyState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if had := s.keys[key]; had != nil {
		f.state.TakeAnswers(had.state)
	}
	s.keys[key] = &f
}

func (s *State) forget(key pods.NamespacedKey) {
	s.mu.Lock()
	delete(s.keys, key)
	s.mu.Unlock()
	s.keyless.Lock()
	defer s.keyless.Unlock()
	delete(s.keyless.known, key)
}

// Record stores the answers of a pod, and enqueues its key.
func (s *State) Record(v probe.Target, answers []probe.Answer) {
	s.mu.Lock()
	s.unresponsivePods.Record(v, answers)
	f := s.keys[v.Of]
	if f != nil {
		f.state.Record(v.Pod, answers)
	}
	s.mu.Unlock()
	if f != nil {
		s.answered.Enqueue(nameOf(v.Of))
	}
}

// seen returns the observations of the pods with the key.
func (s *State) seen(key pods.NamespacedKey) serving.Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.keys[key]; f != nil {
		return f.seen
	}
	return serving.Seen{}
}

// podKeys returns the keys of all namespaces in which pods with their own keys are tracked.
func (s *State) podKeys() []pods.NamespacedKey {
	return s.which(func(key pods.NamespacedKey) bool { return key.Key == pods.PodKey })
}

// secretsIn returns the keys of the tracked Secrets of a namespace.
func (s *State) secretsIn(namespace string) []pods.NamespacedKey {
	return s.which(func(key pods.NamespacedKey) bool {
		_, ok := key.Key.Secret()
		return ok && key.Namespace == namespace
	})
}

func (s *State) which(is func(pods.NamespacedKey) bool) []pods.NamespacedKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []pods.NamespacedKey
	for key := range s.keys {
		if is(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// unresponsive returns the periods of those of the pods that do not answer in time, or nil.
func (s *State) unresponsive(all []*pods.Facts) map[types.UID]probe.UnresponsivePeriod {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out map[types.UID]probe.UnresponsivePeriod
	for _, pod := range all {
		period := s.unresponsivePods.Of(pod.UID)
		if period == (probe.UnresponsivePeriod{}) {
			continue
		}
		if out == nil {
			out = map[types.UID]probe.UnresponsivePeriod{}
		}
		out[pod.UID] = period
	}
	return out
}

// Woken records that a pod's kubelet was made to update the files of the Secret, and schedules a
// dial of the pod.
func (s *State) Woken(secret types.NamespacedName, pod types.UID, at time.Time) {
	s.mu.Lock()
	f := s.keys[ofSecret(secret)]
	known := f != nil && f.state.Woken(pod, at)
	s.mu.Unlock()
	if known {
		s.woken.Enqueue(secret)
	}
}

// Rotation returns the latest change of the Secret's certificate; false if none is
// known.
func (s *State) Rotation(secret types.NamespacedName) (serving.Rotation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.keys[ofSecret(secret)]; f != nil {
		return f.state.Rotation()
	}
	return serving.Rotation{}, false
}

// Serves reports whether the pod was last seen to serve the leaf.
func (s *State) Serves(secret types.NamespacedName, pod types.UID, leaf string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.keys[ofSecret(secret)]
	return f != nil && f.state.Serves(pod, leaf)
}

// Stale returns the stale workloads of a namespace.
func (s *State) Stale(namespace string) []serving.StaleWorkload {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []serving.StaleWorkload
	for key, f := range s.keys {
		if key.Namespace == namespace {
			out = append(out, f.stale...)
		}
	}
	slices.SortFunc(out, serving.StaleWorkload.Compare)
	return out
}
