package rotator

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// rememberRestarts is for how long a restart is remembered that somebody may undo,
// and refusedFor, in retries, for how long one is not tried that was refused.
const (
	rememberRestarts = 7 * 24 * time.Hour
	refusedFor       = 10
)

// restartState is what the leader knows of all restarts.
type restartState struct {
	elected <-chan struct{} // closed where this replica leads
	once    sync.Once       // for what a new leader does first

	mu         sync.Mutex
	namespaces map[string]*restartEntry
	restarts   int // done by this process
}

type restartEntry struct {
	decided  bool
	rollouts map[Workload]rollout
	memory   restartMemory
	held     map[hold]int
}

func newRestartState(elected <-chan struct{}) *restartState {
	return &restartState{elected: elected, namespaces: map[string]*restartEntry{}}
}

func (s *restartState) entry(namespace string) *restartEntry {
	e := s.namespaces[namespace]
	if e == nil {
		e = &restartEntry{
			rollouts: map[Workload]rollout{},
			memory:   restartMemory{restarted: map[restartKey]time.Time{}, refused: map[restartKey]refusal{}},
		}
		s.namespaces[namespace] = e
	}
	return e
}

// doubt notes a workload that may be rolling out. Until it was looked at it has a
// place.
func (s *restartState) doubt(namespace string, w Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entry(namespace).rollouts[w] = rollout{doubt: true}
}

// situation begins a look at a namespace with what is remembered of it.
func (s *restartState) situation(namespace string, cfg RestartConfig, now time.Time) restartSituation {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(namespace)
	maps.DeleteFunc(e.memory.restarted, func(_ restartKey, at time.Time) bool { return now.Sub(at) > rememberRestarts })
	maps.DeleteFunc(e.memory.refused, func(_ restartKey, r refusal) bool { return now.Sub(r.at) > refusedFor*cfg.Retry })
	free := cfg.Max
	for other, o := range s.namespaces {
		if other != namespace {
			free -= o.rolling()
		}
	}
	return restartSituation{
		now: now, free: free, first: !e.decided, rollouts: e.rollouts, memory: e.memory,
		standings: map[Workload]standing{}, services: map[string]serviceStanding{},
	}
}

func (e *restartEntry) rolling() int {
	n := 0
	for _, r := range e.rollouts {
		if !r.stuck {
			n++
		}
	}
	return n
}

// started notes that a workload was restarted, which does for all Secrets that it
// serves an old certificate of.
func (s *restartState) started(namespace string, situation restartSituation, workload Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts++
	for _, w := range situation.stale {
		if w.Workload == workload {
			s.entry(namespace).memory.restarted[keyOf(w)] = situation.now
		}
	}
}

func (s *restartState) refuse(namespace string, w staleWorkload, r refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entry(namespace).memory.refused[keyOf(w)] = r
}

// put keeps what a decision has come to.
func (s *restartState) put(namespace string, d restartDecision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(namespace)
	e.decided, e.rollouts, e.memory.holds, e.held = true, d.rollouts, d.records, map[hold]int{}
	for _, h := range d.holds {
		e.held[h.hold]++
	}
	if len(d.rollouts)+len(d.holds)+len(e.memory.restarted)+len(e.memory.refused) == 0 {
		delete(s.namespaces, namespace)
	}
}

var (
	restartsDesc = prometheus.NewDesc("servingcert_restarts_total",
		"Workloads restarted because their pods served an old certificate and asked for it, by this replica; absent where it does not lead, as are the others.", nil, nil)
	rollingDesc = prometheus.NewDesc("servingcert_restarts_rolling",
		"Workloads that roll out now of those that ask for restarts; --max-restarts is the most.", nil, nil)
	restartsStuckDesc = prometheus.NewDesc("servingcert_restarts_stuck",
		"Restarted workloads whose rollout does not get on, by namespace; no other workload of the namespace is restarted.", []string{"namespace"}, nil)
	heldDesc = prometheus.NewDesc("servingcert_restarts_held",
		"Workloads whose pods serve an old certificate and ask for a restart, and that are not restarted now, by namespace and why.", []string{"namespace", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (s *restartState) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{restartsDesc, rollingDesc, restartsStuckDesc, heldDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *restartState) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-s.elected:
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rolling := 0
	for namespace, e := range s.namespaces {
		rolling += e.rolling()
		stuck := 0
		for _, r := range e.rollouts {
			if r.stuck && r.ours {
				stuck++
			}
		}
		if stuck > 0 {
			ch <- prometheus.MustNewConstMetric(restartsStuckDesc, prometheus.GaugeValue, float64(stuck), namespace)
		}
		for reason, n := range e.held {
			ch <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(n), namespace, string(reason))
		}
	}
	ch <- prometheus.MustNewConstMetric(restartsDesc, prometheus.CounterValue, float64(s.restarts))
	ch <- prometheus.MustNewConstMetric(rollingDesc, prometheus.GaugeValue, float64(rolling))
}
