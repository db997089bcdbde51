package requests

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what became of requests of one kind.
type Metrics struct {
	issued   prometheus.Counter
	failures *prometheus.CounterVec
}

// NewMetrics registers a counter of certificates, and one of failures by reason.
func NewMetrics(r prometheus.Registerer, issued, failures prometheus.CounterOpts) (*Metrics, error) {
	m := &Metrics{prometheus.NewCounter(issued), prometheus.NewCounterVec(failures, []string{"reason"})}
	for _, c := range []prometheus.Collector{m.issued, m.failures} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
