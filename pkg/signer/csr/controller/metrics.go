package controller

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	issued   prometheus.Counter
	failures *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		issued: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "servingcert_csr_issued_total",
			Help: "Certificates issued for CertificateSigningRequests.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_csr_failures_total",
			Help: "CertificateSigningRequests that were denied, or had been approved and failed, and failed attempts to sign one, by reason.",
		}, []string{"reason"}),
	}
	for _, c := range []prometheus.Collector{m.issued, m.failures} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) failed(reason string) { m.failures.WithLabelValues(reason).Inc() }
