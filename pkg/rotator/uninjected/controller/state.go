package controller

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// state is what is known of the opted-in namespaces, and the collector of the metric. Its loss, as
// in a new leader, only repeats events.
type state struct {
	mu         sync.Mutex
	namespaces map[string]namespaceState
}

type namespaceState struct {
	pods   int // missed
	groups map[uninjected.Key]uninjected.GroupState
}

func newState() *state { return &state{namespaces: map[string]namespaceState{}} }

func (s *state) groupStates(namespace string) map[uninjected.Key]uninjected.GroupState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.namespaces[namespace].groups // replaced, never changed
}

func (s *state) put(namespace string, pods int, groups map[uninjected.Key]uninjected.GroupState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces[namespace] = namespaceState{pods, groups}
}

func (s *state) forget(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.namespaces, namespace)
}

var missedDesc = prometheus.NewDesc("servingcert_missed_pods",
	"Pods that run without the Secret that they would get if they were created now, or whose proxy would then connect to Services otherwise, by opted-in namespace; absent if this replica does not lead.",
	[]string{"namespace"}, nil)

// Describe implements prometheus.Collector.
func (s *state) Describe(ch chan<- *prometheus.Desc) { ch <- missedDesc }

// Collect implements prometheus.Collector.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	namespaces := maps.Clone(s.namespaces)
	s.mu.Unlock()
	for namespace, e := range namespaces {
		ch <- prometheus.MustNewConstMetric(missedDesc, prometheus.GaugeValue, float64(e.pods), namespace)
	}
}
