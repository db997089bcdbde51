package rotator

import "github.com/prometheus/client_golang/prometheus"

var missedDesc = prometheus.NewDesc("servingcert_missed_pods",
	"Pods that run without the Secret that they would get if they were created now, by opted-in namespace; absent where this replica does not lead.",
	[]string{"namespace"}, nil)

// metrics shows, at scrape, what the last look at each namespace found.
type metrics struct{ ledger *ledger }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { ch <- missedDesc }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for namespace, pods := range m.ledger.counts() {
		ch <- prometheus.MustNewConstMetric(missedDesc, prometheus.GaugeValue, float64(pods), namespace)
	}
}
