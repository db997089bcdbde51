package controller

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	issued   prometheus.Counter
	failures *prometheus.CounterVec
	served   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		issued: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "servingcert_pod_certificates_issued_total",
			Help: "Certificates issued for keys that kubelets made for pods.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_pod_certificate_failures_total",
			Help: "PodCertificateRequests that were denied, and failed attempts to sign one, by reason.",
		}, []string{"reason"}),
		served: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "servingcert_pod_certificate_requests_served",
			Help: "1 once the API server was seen to serve PodCertificateRequests.",
		}),
	}
	for _, c := range []prometheus.Collector{m.issued, m.failures, m.served} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) failed(reason string) { m.failures.WithLabelValues(reason).Inc() }
