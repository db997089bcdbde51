package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// State is what the leader knows of all restarts.
type State struct {
	elected <-chan struct{} // closed where this replica leads
	once    sync.Once       // for what a new leader does first

	mu     sync.Mutex
	memory *restart.Memory
}

func newState(elected <-chan struct{}) *State {
	return &State{elected: elected, memory: restart.NewMemory()}
}

func (s *State) doubt(namespace string, w pods.Workload, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Doubt(namespace, w, now)
}

// places returns the namespaces that have one of the --max-restarts places.
func (s *State) places() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.Totals().Places
}

func (s *State) situation(namespace string, limits restart.Limits, now time.Time) restart.Situation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.Situation(namespace, limits, now)
}

func (s *State) refuse(namespace string, w serving.StaleWorkload, why string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Refused(namespace, w, why, now)
}

// put keeps a decision.
func (s *State) put(namespace string, d restart.Decision, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Put(namespace, d, done)
}

var (
	restartsDesc = prometheus.NewDesc("servingcert_restarts_total",
		"Workloads restarted by this replica because their pods served an old certificate and asked for a restart; absent where the replica does not lead, as are the others.", nil, nil)
	rollingDesc = prometheus.NewDesc("servingcert_restarts_rolling",
		"Restarted workloads that are rolling out now and count towards --max-restarts: for a bounded time, and one of a namespace.", nil, nil)
	placeDesc = prometheus.NewDesc("servingcert_restarts_place",
		"1 for each namespace that has one of the --max-restarts places: a workload of it was restarted and is rolling out.", []string{"namespace"}, nil)
	stuckDesc = prometheus.NewDesc("servingcert_restarts_stuck",
		"Restarted workloads whose rollout is not progressing, by namespace; no other workload of the namespace is restarted.", []string{"namespace"}, nil)
	heldDesc = prometheus.NewDesc("servingcert_restarts_held",
		"Workloads whose pods serve an old certificate, or hold an old CA bundle, and ask for a restart, and that are not restarted now, by namespace and reason.", []string{"namespace", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (s *State) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{restartsDesc, rollingDesc, placeDesc, stuckDesc, heldDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *State) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-s.elected:
	default:
		return
	}
	s.mu.Lock()
	t := s.memory.Totals()
	s.mu.Unlock()
	for namespace, stuck := range t.Stuck {
		ch <- prometheus.MustNewConstMetric(stuckDesc, prometheus.GaugeValue, float64(stuck), namespace)
	}
	for namespace, held := range t.Held {
		for reason, n := range held {
			ch <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(n), namespace, string(reason))
		}
	}
	ch <- prometheus.MustNewConstMetric(restartsDesc, prometheus.CounterValue, float64(t.Started))
	ch <- prometheus.MustNewConstMetric(rollingDesc, prometheus.GaugeValue, float64(len(t.Places)))
	for _, namespace := range t.Places {
		ch <- prometheus.MustNewConstMetric(placeDesc, prometheus.GaugeValue, 1, namespace)
	}
}
