package controller

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// metrics are the metrics that the controller updates as it works.
type metrics struct {
	issued   *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		issued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_certificates_issued_total",
			Help: "Certificates issued and written to their Secrets, by reason.",
		}, []string{"reason"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_issue_failures_total",
			Help: "Certificates that were requested or due and not issued, by namespace and reason: every failed attempt, and every refused request once. A namespace's series are deleted with it and with its opt-in; those of a namespace without it with its last Service.",
		}, []string{"namespace", "reason"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "servingcert_issue_duration_seconds",
			Help:    "Time to generate a key, have the certificate signed and write the Secret.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	for _, c := range []prometheus.Collector{m.issued, m.failures, m.duration} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// failed counts a failure.
func (m *metrics) failed(namespace string, reason signer.Reason) {
	m.failures.WithLabelValues(namespace, string(reason)).Inc()
}

// forget deletes the series of a deleted namespace: namespaces that come and go must not
// accumulate series.
func (m *metrics) forget(namespace string) {
	m.failures.DeletePartialMatch(prometheus.Labels{"namespace": namespace})
}

// failed counts a failure, unless the reason is empty. It counts first: if the namespace ends
// after that, an event deletes the series, and if it has ended before, this does.
func (c *Controller) failed(ctx context.Context, namespace string, reason signer.Reason) {
	if reason != "" {
		c.metrics.failed(namespace, reason)
		c.forgetUnused(ctx, namespace)
	}
}

// forgetUnused deletes the series of a namespace that is not opted in and has no Service. The cache
// of namespaces does not have such a namespace, so no event reports its end.
func (c *Controller) forgetUnused(ctx context.Context, namespace string) {
	optedIn := c.metadata.Get(ctx, types.NamespacedName{Name: namespace}, facts.Metadata("Namespace")) == nil
	if optedIn {
		return
	}
	for range c.services.In(namespace) {
		return
	}
	c.metrics.forget(namespace)
}

// expiry collects the metrics of certificates from the cache at scrape time: no series
// outlives its Secret.
type expiry struct {
	*Controller
	leaves   *prometheus.Desc
	notAfter *prometheus.Desc
	renewAt  *prometheus.Desc
	retained *prometheus.Desc
	renewBy  *prometheus.Desc
}

func newExpiry(c *Controller) *expiry {
	labels := []string{"namespace", "secret"}
	return &expiry{
		Controller: c,
		leaves:     prometheus.NewDesc("servingcert_certificates", "Certificates in managed Secrets, by the common name of the CA that signed them; empty for an unknown one.", []string{"issuer"}, nil),
		notAfter:   prometheus.NewDesc("servingcert_certificate_not_after_timestamp_seconds", "When the certificate in a managed Secret, or in one of another issuer that a Service names, expires, in seconds since the epoch.", labels, nil),
		renewAt:    prometheus.NewDesc("servingcert_certificate_renew_at_timestamp_seconds", "When the certificate in a managed Secret is due for renewal, in seconds since the epoch.", labels, nil),
		retained:   prometheus.NewDesc("servingcert_certificate_retained", "1 for a managed Secret that no Service requests any more and that is kept and renewed.", labels, nil),
		renewBy:    prometheus.NewDesc("servingcert_external_certificate_renew_by_timestamp_seconds", "When another issuer should have renewed the certificate in a Secret that a Service names, or since when it has none that clients accept or that is as one of the Services requires, in seconds since the epoch.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (e *expiry) Describe(ch chan<- *prometheus.Desc) {
	ch <- e.leaves
	ch <- e.notAfter
	ch <- e.renewAt
	ch <- e.retained
	ch <- e.renewBy
}

// Collect implements prometheus.Collector.
func (e *expiry) Collect(ch chan<- prometheus.Metric) {
	byName := map[string]int{} // several CAs may have the same name
	ca := e.known.Load()
	seconds := func(t time.Time) float64 { return float64(t.Unix()) }
	externals, now := e.externals.all(), e.config.Clock()
	for _, f := range externals {
		ch <- prometheus.MustNewConstMetric(e.renewBy, prometheus.GaugeValue, seconds(f.WriteBy(now, e.services.naming(f.Namespace, f.Name)...)), f.Namespace, f.Name)
		if f.Leaf.Exists() {
			ch <- prometheus.MustNewConstMetric(e.notAfter, prometheus.GaugeValue, seconds(f.Leaf.NotAfter), f.Namespace, f.Name)
		}
	}
	for f := range e.secrets.All() {
		if !f.Leaf.Exists() || f.OfAnotherIssuer() || externals[types.NamespacedName{Namespace: f.Namespace, Name: f.Name}] != nil {
			continue
		}
		ch <- prometheus.MustNewConstMetric(e.notAfter, prometheus.GaugeValue, seconds(f.Leaf.NotAfter), f.Namespace, f.Name)
		ch <- prometheus.MustNewConstMetric(e.renewAt, prometheus.GaugeValue, seconds(f.Leaf.RenewAt), f.Namespace, f.Name)
		owners := e.services.ownersOf(f)
		if len(owners) == 0 {
			continue
		}
		if !slices.ContainsFunc(owners, func(svc *corev1.Service) bool { return asksFor(svc, f.Name) }) {
			ch <- prometheus.MustNewConstMetric(e.retained, prometheus.GaugeValue, 1, f.Namespace, f.Name)
		}
		if ca == nil { // this replica does not lead
			continue
		}
		if issuer := f.SignedBy(ca); issuer == nil {
			byName[""]++
		} else {
			byName[issuer.Certificate.Subject.CommonName]++
		}
	}
	for name, n := range byName {
		ch <- prometheus.MustNewConstMetric(e.leaves, prometheus.GaugeValue, float64(n), name)
	}
}

// owned reports whether an owner of the Secret exists. A Secret without one is not
// renewed, so its certificate is never replaced by one of another CA.
func (c *Controller) owned(f *signer.SecretFacts) bool {
	return len(c.services.ownersOf(f)) > 0
}

// Leaves returns the number of certificates in owned managed Secrets by the pki.Fingerprint of
// their issuer, "" for an unknown one. It reads caches and may be called at any time. It
// returns nil until a CA has been available, since the caches may not be filled until then.
func (c *Controller) Leaves() map[string]int {
	ca := c.known.Load()
	if ca == nil {
		return nil
	}
	byIssuer := map[*pki.Issuer]int{}
	for f := range c.secrets.All() {
		if f.Leaf.Exists() && !f.OfAnotherIssuer() && c.owned(f) {
			byIssuer[f.SignedBy(ca)]++
		}
	}
	leaves := map[string]int{}
	for issuer, n := range byIssuer {
		if issuer == nil {
			leaves[""] += n
		} else {
			leaves[pki.Fingerprint(issuer.Certificate)] += n
		}
	}
	return leaves
}
