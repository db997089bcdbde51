package rotator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	missedDesc = prometheus.NewDesc("servingcert_missed_pods",
		"Pods that run without the Secret that they would get if they were created now, by opted-in namespace; absent where this replica does not lead.",
		[]string{"namespace"}, nil)
	consumersDesc = prometheus.NewDesc("servingcert_consumers",
		"Pods that mount the key of an issued certificate, by namespace and by what they serve: current, propagating, stale, foreign, plaintext, unreachable, pending, not_ready or no_port. A state that no pod of the namespace is in is absent.",
		[]string{"namespace", "state"}, nil)
	staleDesc = prometheus.NewDesc("servingcert_stale_not_after_timestamp_seconds",
		"When the first of the certificates ends that stale pods of the namespace serve; absent if none is stale.",
		[]string{"namespace"}, nil)
)

// metrics shows, at scrape, what the last look at each namespace found.
type metrics struct {
	ledger    *ledger
	consumers *consumersLedger
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- missedDesc
	ch <- consumersDesc
	ch <- staleDesc
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for namespace, pods := range m.ledger.counts() {
		ch <- prometheus.MustNewConstMetric(missedDesc, prometheus.GaugeValue, float64(pods), namespace)
	}
	for namespace, t := range m.consumers.tallies() {
		for state, pods := range t.states {
			ch <- prometheus.MustNewConstMetric(consumersDesc, prometheus.GaugeValue, float64(pods), namespace, string(state))
		}
		if !t.notAfter.IsZero() {
			ch <- prometheus.MustNewConstMetric(staleDesc, prometheus.GaugeValue, float64(t.notAfter.UnixNano())/float64(time.Second), namespace)
		}
	}
}

// newPropagation times new certificates on their way.
func newPropagation() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "servingcert_propagation_seconds",
		Help:    "From the moment that a new certificate was known of until a pod that served the one before was seen to serve it. Pods are asked every 10 to 15 s.",
		Buckets: []float64{5, 10, 20, 30, 45, 60, 75, 90, 105, 120, 180, 300, 600, 1800, 3600, 21600, 86400},
	})
}
