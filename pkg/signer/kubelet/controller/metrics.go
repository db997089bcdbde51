package controller

import (
	"fmt"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/kubelet"
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
	requests *facts.Informer[*kubelet.Facts]
	count    *prometheus.Desc

	mu      sync.Mutex
	reasons map[types.UID]string
}

func newWaiting(r prometheus.Registerer, informer *facts.Informer[*kubelet.Facts]) (*waiting, error) {
	w := &waiting{
		requests: informer,
		count: prometheus.NewDesc("servingcert_kubelet_serving_waiting",
			"CertificateSigningRequests of kubelets for their serving certificates that are pending, by reason.", []string{requests.LabelReason}, nil),
		reasons: map[types.UID]string{},
	}
	if err := r.Register(w); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return w, nil
}

// put records why a request waits.
func (w *waiting) put(f *kubelet.Facts, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reasons[f.UID] = reason
}

// forget deletes the record of a request that no longer waits.
func (w *waiting) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reasons, uid)
}

// Describe implements prometheus.Collector.
func (w *waiting) Describe(ch chan<- *prometheus.Desc) { ch <- w.count }

// Collect implements prometheus.Collector.
func (w *waiting) Collect(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	reasons := maps.Clone(w.reasons)
	w.mu.Unlock()
	counts := map[string]int{}
	for f := range w.requests.All() {
		if reason := reasons[f.UID]; reason != "" && f.IsPending() {
			counts[reason]++
		}
	}
	for reason, n := range counts {
		ch <- prometheus.MustNewConstMetric(w.count, prometheus.GaugeValue, float64(n), reason)
	}
}
