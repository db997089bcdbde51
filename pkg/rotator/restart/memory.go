package restart

import (
	"maps"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/fairqueue"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// rememberRestarts is for how long a restart is remembered that somebody may
// revert, and refusedFor, in retries, for how long one is not tried again that was
// refused.
const (
	rememberRestarts = 7 * 24 * time.Hour
	refusedFor       = 10
)

// Memory is what a leader remembers of the restarts of all namespaces. Losing it
// costs a second event: that a workload was restarted stands in its template. It is
// not safe for concurrent use.
type Memory struct {
	namespaces map[string]*namespace
	started    int
	leading    time.Time      // of the first look
	line       fairqueue.Line // namespaces with a workload that waits for one of the places
}

type namespace struct {
	decided  bool
	rollouts map[pods.Workload]rollout
	memory   memory
	held     []Held
}

// memory is what is remembered of the workloads of one namespace.
type memory struct {
	// restarted holds what this process restarted, and when.
	restarted map[Key]time.Time
	// refused holds restarts that the API server refused.
	refused map[Key]refusal
	holds   map[holdKey]holdRecord
}

type refusal struct {
	at  time.Time
	why string
}

type holdKey struct {
	Key
	hold Hold
}

type holdRecord struct {
	since    time.Time
	notified bool // an event has reported it
}

// NewMemory returns the memory of a process that has just begun to lead.
func NewMemory() *Memory { return &Memory{namespaces: map[string]*namespace{}} }

func (m *Memory) namespace(name string) *namespace {
	n := m.namespaces[name]
	if n == nil {
		n = &namespace{
			rollouts: map[pods.Workload]rollout{},
			memory:   memory{restarted: map[Key]time.Time{}, refused: map[Key]refusal{}},
		}
		m.namespaces[name] = n
	}
	return n
}

// Doubt notes a workload that may be rolling out because the rotator restarted it.
// Until it was looked at it counts as one that is.
func (m *Memory) Doubt(namespace string, w pods.Workload, now time.Time) {
	m.namespace(namespace).rollouts[w] = rollout{doubt: true, place: true, begun: now}
}

// Situation begins a look at a namespace with what is remembered of it.
func (m *Memory) Situation(namespace string, limits Limits, now time.Time) Situation {
	n := m.namespace(namespace)
	maps.DeleteFunc(n.memory.restarted, func(_ Key, at time.Time) bool { return now.Sub(at) > rememberRestarts })
	maps.DeleteFunc(n.memory.refused, func(_ Key, r refusal) bool { return now.Sub(r.at) > refusedFor*limits.Retry })
	if m.leading.IsZero() {
		m.leading = now
	}
	free := limits.Max - m.line.Ahead(namespace, now, limits.Retry)
	for other, o := range m.namespaces {
		if other != namespace && o.hasPlace(now, limits) {
			free--
		}
	}
	return Situation{
		Now: now, Limits: limits, free: free, leading: m.leading, first: !n.decided, rollouts: n.rollouts, memory: n.memory,
		Labels: map[string]map[string]string{}, Standings: map[pods.Workload]Standing{}, Services: map[string]ServiceStanding{},
	}
}

// hasPlace reports whether the namespace has one of the --max-restarts places. It
// never counts for more than one: the rotator restarts one workload of it at a time.
func (n *namespace) hasPlace(now time.Time, limits Limits) bool {
	for _, r := range n.rollouts {
		if r.hasPlace(now, limits) {
			return true
		}
	}
	return false
}

// Refused keeps that the API server refused a restart.
func (m *Memory) Refused(namespace string, w serving.StaleWorkload, why string, now time.Time) {
	m.namespace(namespace).memory.refused[KeyOf(w)] = refusal{now, why}
}

// Put keeps a decision. done: the restart that it starts took place.
func (m *Memory) Put(name string, d Decision, done bool) {
	n := m.namespace(name)
	n.decided, n.rollouts, n.memory.holds, n.held = true, map[pods.Workload]rollout{}, d.records, d.Held
	maps.Copy(n.rollouts, d.rollouts)
	waits := slices.ContainsFunc(d.Held, func(h Held) bool { return h.Hold == holdFull })
	switch {
	case waits && d.Start == nil:
		m.line.Ask(name, d.at)
	default:
		m.line.Leave(name)
	}
	switch {
	case d.Start == nil:
	case done:
		m.started++
		for _, key := range d.Start.keys {
			n.memory.restarted[key] = d.Start.at
		}
	default:
		delete(n.rollouts, d.Start.Stale.Workload)
	}
	if len(n.rollouts)+len(n.held)+len(n.memory.restarted)+len(n.memory.refused) == 0 {
		delete(m.namespaces, name)
	}
}

// places returns the namespaces that have one of the --max-restarts places, sorted, as
// they were looked at last.
func (m *Memory) places() []string {
	var places []string
	for name, n := range m.namespaces {
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

// Totals are the numbers of all restarts, for metrics.
type Totals struct {
	Started int                     // by this process
	Places  []string                // namespaces that have one of the --max-restarts places
	Stuck   map[string]int          // restarted workloads whose rollout is stuck, by namespace
	Held    map[string]map[Hold]int // by namespace
}

// Totals returns the numbers of all restarts.
func (m *Memory) Totals() Totals {
	t := Totals{Started: m.started, Places: m.places(), Stuck: map[string]int{}, Held: map[string]map[Hold]int{}}
	for name, n := range m.namespaces {
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
