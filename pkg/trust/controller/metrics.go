package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// metrics counts what was done, and shows the summary that was last made.
type metrics struct {
	writes   *prometheus.CounterVec
	failures *prometheus.CounterVec
	targets  *prometheus.Desc
	refusing *prometheus.Desc
	grace    *prometheus.Desc
	kinds    *prometheus.Desc
	bundle   *prometheus.Desc
	source   *prometheus.Desc
	summary  func() (trust.Summary, bool)
}

func newMetrics(kinds []target.Kind, summary func() (trust.Summary, bool)) *metrics {
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_trust_writes_total",
			Help: "Writes of the CA bundle to targets, by kind of target and why (create, update, restore).",
		}, []string{"kind", "why"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_trust_failures_total",
			Help: "Failed writes of the CA bundle to targets, by kind of target and reason.",
		}, []string{"kind", "reason"}),
		targets: prometheus.NewDesc("servingcert_trust_targets",
			"Objects that request the CA bundle, by kind and state (holds, pending, refuses, unsuitable).", []string{"kind", "state"}, nil),
		refusing: prometheus.NewDesc("servingcert_trust_refusing",
			"Targets that cannot be written, by kind and reason; a kind whose targets cannot be watched counts as one.", []string{"kind", "reason"}, nil),
		grace: prometheus.NewDesc("servingcert_trust_grace",
			"Targets of a namespace that refuse the CA bundle, or held it and lost it again: a new generation of the CA waits for them for a limited time.", []string{"namespace"}, nil),
		kinds: prometheus.NewDesc("servingcert_trust_kinds",
			"1 for the current state of a kind of target (starting, watched, absent, refused), 0 for its other states.", []string{"kind", "state"}, nil),
		bundle: prometheus.NewDesc("servingcert_trust_bundle_info",
			"1, with the SHA-256 of the CA bundle that is being distributed; absent if there is none.", []string{"hash"}, nil),
		source: prometheus.NewDesc("servingcert_trust_source_valid",
			"1 if there is a CA bundle to distribute, 0 if its source is missing, empty or damaged.", nil, nil),
		summary: summary,
	}
	for _, kind := range kinds {
		for _, why := range trust.Whys() {
			m.writes.WithLabelValues(kind.Name, string(why)) // a series that starts at 0 makes rates right
		}
	}
	return m
}

// attempted counts a write.
func (m *metrics) attempted(kind string, why trust.Why, a trust.Attempt) {
	switch {
	case a.Wrote:
		m.writes.WithLabelValues(kind, string(why)).Inc()
	case !a.Gone:
		m.failed(kind, a.Failure.Reason)
	}
}

func (m *metrics) failed(kind string, reason trust.Reason) {
	m.failures.WithLabelValues(kind, string(reason)).Inc()
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.writes.Describe(ch)
	m.failures.Describe(ch)
	ch <- m.targets
	ch <- m.refusing
	ch <- m.grace
	ch <- m.kinds
	ch <- m.bundle
	ch <- m.source
}

// Collect implements prometheus.Collector. A replica that does not lead has no
// summary and shows no targets.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.writes.Collect(ch)
	m.failures.Collect(ch)
	s, ok := m.summary()
	if !ok {
		return
	}
	for kind, states := range s.Counts {
		for _, state := range trust.States() {
			ch <- prometheus.MustNewConstMetric(m.targets, prometheus.GaugeValue, float64(states[state]), kind, string(state))
		}
	}
	for kind, reasons := range s.Refusing {
		for reason, n := range reasons {
			ch <- prometheus.MustNewConstMetric(m.refusing, prometheus.GaugeValue, float64(n), kind, string(reason))
		}
	}
	for namespace, n := range s.Grace {
		ch <- prometheus.MustNewConstMetric(m.grace, prometheus.GaugeValue, float64(n), namespace)
	}
	for kind, is := range s.Kinds {
		for _, state := range trust.KindStates() {
			ch <- prometheus.MustNewConstMetric(m.kinds, prometheus.GaugeValue, oneIf(state == is), kind, string(state))
		}
	}
	if s.Status.BundleHash != "" {
		ch <- prometheus.MustNewConstMetric(m.bundle, prometheus.GaugeValue, 1, s.Status.BundleHash)
	}
	ch <- prometheus.MustNewConstMetric(m.source, prometheus.GaugeValue, oneIf(s.Status.BundleHash != ""))
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
