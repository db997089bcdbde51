package requests

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// LabelReason is the label of the counter of failures.
const LabelReason = "reason"

// Metrics count the results for requests of one kind.
type Metrics struct {
	issued   prometheus.Counter
	failures *prometheus.CounterVec
}

// NewMetrics registers a counter of certificates, and one of failures with label
// LabelReason.
func NewMetrics(r prometheus.Registerer, issued prometheus.Counter, failures *prometheus.CounterVec) (*Metrics, error) {
	m := &Metrics{issued, failures}
	for _, c := range []prometheus.Collector{m.issued, m.failures} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
