package controller

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/rotator/failing"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// eventsPerNamespace bounds the log lines and events of a namespace, because a user who may write pods
// and their status controls the findings. Further findings are only counted.
var eventsPerNamespace = limit.Limit{Burst: 50, Interval: 10 * time.Second}

// state is what is remembered of the namespaces with failing injected pods. Its loss, as in a new
// leader, only repeats events.
type state struct {
	mu         sync.Mutex
	namespaces map[string]namespaceState
	rounds     map[string]failing.Rounds // by namespace
	events     *limit.Keyed[string]      // by namespace
}

type namespaceState struct {
	failing  int
	reported map[failing.Key]failing.Report // replaced, never changed
}

func newState() *state {
	return &state{namespaces: map[string]namespaceState{}, rounds: map[string]failing.Rounds{}, events: limit.NewKeyed[string](eventsPerNamespace)}
}

// of returns the reports and the deletions of a namespace. It removes old deletions.
func (s *state) of(namespace string, now time.Time) (map[failing.Key]failing.Report, failing.Rounds) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rounds := s.rounds[namespace]
	if rounds.Forget(now); len(rounds) == 0 {
		delete(s.rounds, namespace)
	}
	return s.namespaces[namespace].reported, maps.Clone(rounds)
}

func (s *state) put(namespace string, n int, reported map[failing.Key]failing.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 && len(reported) == 0 {
		delete(s.namespaces, namespace)
		return
	}
	s.namespaces[namespace] = namespaceState{n, reported}
}

// mayReport reports whether one more finding of the namespace may be reported now, and counts it.
func (s *state) mayReport(namespace string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events.Allow(namespace, now)
}

// deleted counts the deletion of the pod.
func (s *state) deleted(pod *pods.Facts, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rounds[pod.Namespace] == nil {
		s.rounds[pod.Namespace] = failing.Rounds{}
	}
	s.rounds[pod.Namespace].Add(pod, now)
}

var failingDesc = prometheus.NewDesc("servingcert_failing_workloads",
	"Workloads whose pods fail, or are deleted by their operator, after an injection, by namespace; absent if there are none.",
	[]string{"namespace"}, nil)

// Describe implements prometheus.Collector.
func (s *state) Describe(ch chan<- *prometheus.Desc) { ch <- failingDesc }

// Collect implements prometheus.Collector.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	namespaces := maps.Clone(s.namespaces)
	s.mu.Unlock()
	for namespace, e := range namespaces {
		if e.failing > 0 {
			ch <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, float64(e.failing), namespace)
		}
	}
}
