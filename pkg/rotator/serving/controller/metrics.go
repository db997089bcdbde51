package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

var (
	consumersDesc = prometheus.NewDesc("servingcert_consumers",
		"Pods that mount the key of an issued certificate or have their own, by namespace and state: current, propagating, stale, foreign, plaintext, not_verified, unreachable, pending, not_ready or no_port. States without a pod in the namespace are absent.",
		[]string{"namespace", "state"}, nil)
	staleDesc = prometheus.NewDesc("servingcert_stale_not_after_timestamp_seconds",
		"Earliest expiry of the certificates that stale pods of the namespace serve; absent if no pod is stale.",
		[]string{"namespace"}, nil)
	guardsDesc = prometheus.NewDesc("servingcert_guarded_pods",
		"Ready pods of Services that list their clients, by namespace and what was seen: admits (a client that is not listed was admitted), no_list, watch, other_list, not_seen, pending or refuses. States without a pod in the namespace are absent.",
		[]string{"namespace", "state"}, nil)
	handshakesDesc = prometheus.NewDesc("servingcert_served_ports",
		"Ports of the pods in servingcert_consumers that last answered in TLS, by TLS version (TLS 1.3), key exchange group (X25519MLKEM768; none) and signature algorithm of the leaf (ECDSA-SHA256). The client offers all groups of Go, post-quantum ones first.",
		[]string{"version", "group", "signature"}, nil)
)

// Describe implements prometheus.Collector.
func (s *State) Describe(ch chan<- *prometheus.Desc) {
	ch <- consumersDesc
	ch <- guardsDesc
	ch <- staleDesc
	ch <- handshakesDesc
}

// Collect implements prometheus.Collector.
func (s *State) Collect(ch chan<- prometheus.Metric) {
	for h, ports := range s.handshakes() {
		n := h.Names()
		ch <- prometheus.MustNewConstMetric(handshakesDesc, prometheus.GaugeValue, float64(ports), n.Version, n.Group, n.Signature)
	}
	for namespace, t := range s.tallies() {
		for state, pods := range t.states {
			ch <- prometheus.MustNewConstMetric(consumersDesc, prometheus.GaugeValue, float64(pods), namespace, string(state))
		}
		for state, pods := range t.guards {
			ch <- prometheus.MustNewConstMetric(guardsDesc, prometheus.GaugeValue, float64(pods), namespace, string(state))
		}
		if !t.notAfter.IsZero() {
			ch <- prometheus.MustNewConstMetric(staleDesc, prometheus.GaugeValue, float64(t.notAfter.UnixNano())/float64(time.Second), namespace)
		}
	}
}

// handshakes returns the number of ports by handshake.
func (s *State) handshakes() map[probe.Handshake]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[probe.Handshake]int{}
	for _, f := range s.keys {
		for h := range f.state.Handshakes() {
			out[h]++
		}
	}
	return out
}

// tally has the values of a namespace's metrics.
type tally struct {
	states   map[serving.State]int
	guards   map[serving.GuardState]int
	notAfter time.Time // zero: nothing is stale
}

func (s *State) tallies() map[string]tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]tally{}
	for key, f := range s.keys {
		t, ok := out[key.Namespace]
		if !ok {
			t.states, t.guards = map[serving.State]int{}, map[serving.GuardState]int{}
		}
		for state, n := range f.states {
			t.states[state] += n
		}
		for state, n := range f.guards {
			t.guards[state] += n
		}
		if !f.notAfter.IsZero() && (t.notAfter.IsZero() || f.notAfter.Before(t.notAfter)) {
			t.notAfter = f.notAfter
		}
		out[key.Namespace] = t
	}
	return out
}

// newPropagation returns the histogram of the delays until pods serve a new certificate.
func newPropagation() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "servingcert_propagation_seconds",
		Help:    "Time from when a new certificate was known until a pod that served the previous one was seen to serve it. Pods are dialled 0.3 and 1 s after they were woken, and then every 10 to 15 s.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 45, 60, 75, 90, 105, 120, 180, 300, 600, 1800, 3600, 21600, 86400},
	})
}

// newRefresh returns the histogram of the delays of refreshes of pods' own keys.
func newRefresh() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "servingcert_refresh_delay_seconds",
		Help:    "Time from when a kubelet was due to replace the certificate of a pod's own key until the next one was issued. Observed when the pod is first seen to serve the new one. Kubelets begin up to 300 s late.",
		Buckets: []float64{60, 120, 180, 240, 300, 330, 360, 420, 600, 900, 1800, 3600, 10800, 21600, 86400},
	})
}
