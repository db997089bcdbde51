package restart

import (
	"maps"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/fairqueue"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// rememberRestarts is how long a restart is remembered in case it is reverted. refusedFor is the
// number of retry intervals after which a rejected restart is tried again.
const (
	rememberRestarts = 7 * 24 * time.Hour
	refusedFor       = 10
)

// State is what the leader remembers of the restarts of all namespaces. Its loss only repeats
// events: restarts are recorded in the workloads' templates. It is not safe for concurrent use.
type State struct {
	namespaces map[string]*namespaceState
	started    int
	leading    time.Time      // of the first decision
	line       fairqueue.Line // namespaces with a workload that waits for one of the places
}

type namespaceState struct {
	decided  bool
	rollouts map[pods.Workload]rollout
	history  history
	held     []Held
}

// history is what is remembered of the workloads of one namespace.
type history struct {
	// restarted are the times of this process's restarts.
	restarted map[Key]time.Time
	// refused are the restarts that the API server rejected.
	refused map[Key]refusal
	holds   map[holdKey]holdState
}

type refusal struct {
	at  time.Time
	why string
}

type holdKey struct {
	Key
	hold Hold
}

type holdState struct {
	since    time.Time
	notified bool // an event has reported it
}

// NewState returns the state of a process that has just become the leader.
func NewState() *State { return &State{namespaces: map[string]*namespaceState{}} }

func (s *State) namespace(name string) *namespaceState {
	n := s.namespaces[name]
	if n == nil {
		n = &namespaceState{
			rollouts: map[pods.Workload]rollout{},
			history:  history{restarted: map[Key]time.Time{}, refused: map[Key]refusal{}},
		}
		s.namespaces[name] = n
	}
	return n
}

// AddUnconfirmed adds a workload that may be rolling out because the rotator restarted it. Until
// its status is read, it counts as rolling out.
func (s *State) AddUnconfirmed(namespace string, w pods.Workload, now time.Time) {
	s.namespace(namespace).rollouts[w] = rollout{unconfirmed: true, place: true, begun: now}
}

// Situation returns the input of a decision about a namespace, with what is remembered of it.
func (s *State) Situation(namespace string, limits Limits, now time.Time) Situation {
	n := s.namespace(namespace)
	maps.DeleteFunc(n.history.restarted, func(_ Key, at time.Time) bool { return now.Sub(at) > rememberRestarts })
	maps.DeleteFunc(n.history.refused, func(_ Key, r refusal) bool { return now.Sub(r.at) > refusedFor*limits.Retry })
	if s.leading.IsZero() {
		s.leading = now
	}
	free := limits.Max - s.line.Ahead(namespace, now, limits.Retry)
	for other, o := range s.namespaces {
		if other != namespace && o.hasPlace(now, limits) {
			free--
		}
	}
	return Situation{
		Now: now, Limits: limits, free: free, leading: s.leading, first: !n.decided, rollouts: n.rollouts, history: n.history,
		Labels: map[string]map[string]string{}, Workloads: map[pods.Workload]WorkloadStatus{}, Services: map[string]ServiceStatus{},
	}
}

// hasPlace reports whether the namespace has one of the --max-restarts places. It counts for at
// most one: the rotator restarts one of its workloads at a time.
func (n *namespaceState) hasPlace(now time.Time, limits Limits) bool {
	for _, r := range n.rollouts {
		if r.hasPlace(now, limits) {
			return true
		}
	}
	return false
}

// Refused adds a restart that the API server rejected.
func (s *State) Refused(namespace string, w serving.StaleWorkload, why string, now time.Time) {
	s.namespace(namespace).history.refused[KeyOf(w)] = refusal{now, why}
}

// Put stores a decision. done: its restart succeeded.
func (s *State) Put(name string, d Decision, done bool) {
	n := s.namespace(name)
	n.decided, n.rollouts, n.history.holds, n.held = true, map[pods.Workload]rollout{}, d.holds, d.Held
	maps.Copy(n.rollouts, d.rollouts)
	waits := slices.ContainsFunc(d.Held, func(h Held) bool { return h.Hold == holdFull })
	switch {
	case waits && d.Start == nil:
		s.line.Ask(name, d.at)
	default:
		s.line.Leave(name)
	}
	switch {
	case d.Start == nil:
	case done:
		s.started++
		for _, key := range d.Start.keys {
			n.history.restarted[key] = d.Start.at
		}
	default:
		delete(n.rollouts, d.Start.Stale.Workload)
	}
	if len(n.rollouts)+len(n.held)+len(n.history.restarted)+len(n.history.refused) == 0 {
		delete(s.namespaces, name)
	}
}

// places returns the namespaces that had one of the --max-restarts places in their last decision,
// sorted.
func (s *State) places() []string {
	var places []string
	for name, n := range s.namespaces {
		for _, r := range n.rollouts {
			if r.place {
				places = append(places, name)
				break
			}
		}
	}
	slices.Sort(places)
	return places
}

// Totals are the sums over all namespaces, for metrics.
type Totals struct {
	Started int                     // by this process
	Places  []string                // namespaces that have one of the --max-restarts places
	Stuck   map[string]int          // restarted workloads whose rollout is stuck, by namespace
	Held    map[string]map[Hold]int // by namespace
}

// Totals returns the sums over all namespaces.
func (s *State) Totals() Totals {
	t := Totals{Started: s.started, Places: s.places(), Stuck: map[string]int{}, Held: map[string]map[Hold]int{}}
	for name, n := range s.namespaces {
		for _, r := range n.rollouts {
			if r.stuck && r.ours {
				t.Stuck[name]++
			}
		}
		for _, h := range n.held {
			if t.Held[name] == nil {
				t.Held[name] = map[Hold]int{}
			}
			t.Held[name][h.Hold]++
		}
	}
	return t
}
