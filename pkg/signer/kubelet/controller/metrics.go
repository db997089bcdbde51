package controller

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/signer/requests"
)

func newMetrics(r prometheus.Registerer) (*requests.Metrics, error) {
	return requests.NewMetrics(r, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "servingcert_kubelet_serving_approved_total",
		Help: "CertificateSigningRequests of kubelets for their serving certificates that were approved.",
	}), prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "servingcert_kubelet_serving_denied_total",
		Help: "CertificateSigningRequests of kubelets for their serving certificates that were denied, by reason.",
	}, []string{requests.LabelReason}))
}

// waiting collects the number of pending requests by reason at scrape time.
type waiting struct {
	counts func() map[string]int
	count  *prometheus.Desc
}

func registerWaiting(r prometheus.Registerer, counts func() map[string]int) error {
	w := waiting{counts, prometheus.NewDesc("servingcert_kubelet_serving_waiting",
		"CertificateSigningRequests of kubelets for their serving certificates that are pending, by reason.", []string{requests.LabelReason}, nil)}
	if err := r.Register(w); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (w waiting) Describe(ch chan<- *prometheus.Desc) { ch <- w.count }

// Collect implements prometheus.Collector.
func (w waiting) Collect(ch chan<- prometheus.Metric) {
	for reason, n := range w.counts() {
		ch <- prometheus.MustNewConstMetric(w.count, prometheus.GaugeValue, float64(n), reason)
	}
}
