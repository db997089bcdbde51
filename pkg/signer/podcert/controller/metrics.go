package controller

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/signer/requests"
)

type metrics struct {
	answers *requests.Metrics
	served  prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	answers, err := requests.NewMetrics(r, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "servingcert_pod_certificates_issued_total",
		Help: "Certificates issued for keys that kubelets made for pods.",
	}), prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "servingcert_pod_certificate_failures_total",
		Help: "PodCertificateRequests that were denied, and failed attempts to sign one, by reason.",
	}, []string{requests.LabelReason}))
	if err != nil {
		return nil, err
	}
	m := &metrics{answers, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "servingcert_pod_certificate_requests_served",
		Help: "1 if the API server serves PodCertificateRequests.",
	})}
	if err := r.Register(m.served); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}
