package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// State is the leader's state of all restarts.
type State struct {
	elected <-chan struct{} // closed once this replica leads
	once    sync.Once       // for takeOver

	mu       sync.Mutex
	restarts *restart.State
}

func newState(elected <-chan struct{}) *State {
	return &State{elected: elected, restarts: restart.NewState()}
}

func (s *State) addUnconfirmed(namespace string, w pods.Workload, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts.AddUnconfirmed(namespace, w, now)
}

// places returns the namespaces that have one of the --max-restarts places.
func (s *State) places() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts.Totals().Places
}

func (s *State) situation(namespace string, limits restart.Limits, now time.Time) restart.Situation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts.Situation(namespace, limits, now)
}

func (s *State) refuse(namespace string, w serving.StaleWorkload, why string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts.Refused(namespace, w, why, now)
}

// put stores a decision.
func (s *State) put(namespace string, d restart.Decision, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts.Put(namespace, d, done)
}

var (
	restartsDesc = prometheus.NewDesc("servingcert_restarts_total",
		"Workloads restarted by this replica because their pods served an old certificate and requested a restart; absent if the replica does not lead.", nil, nil)
	rollingDesc = prometheus.NewDesc("servingcert_restarts_rolling",
		"Restarted workloads that are rolling out and count towards --max-restarts: at most one per namespace, for a bounded time.", nil, nil)
	placeDesc = prometheus.NewDesc("servingcert_restarts_place",
		"1 for each namespace that has one of the --max-restarts places: one of its workloads was restarted and is rolling out.", []string{"namespace"}, nil)
	stuckDesc = prometheus.NewDesc("servingcert_restarts_stuck",
		"Restarted workloads whose rollout is not progressing, by namespace; no other workload of the namespace is restarted.", []string{"namespace"}, nil)
	heldDesc = prometheus.NewDesc("servingcert_restarts_held",
		"Workloads that request a restart because their pods serve an old certificate or have loaded an old CA bundle, but are not restarted now, by namespace and reason.", []string{"namespace", "reason"}, nil)
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
	t := s.restarts.Totals()
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
