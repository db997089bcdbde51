package admission

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/mutate"
)

// result is what became of a review.
type result string

const (
	resultInjected  result = "injected"  // patched, or found injected already
	resultUntouched result = "untouched" // nothing injected; the reason says why
	resultDenied    result = "denied"    // the pod's own annotations are wrong
	resultFailed    result = "failed"    // no answer: failurePolicy decides
)

// reasonError is the reason of a review that failed, or that was denied.
const (
	reasonBadAnnotation mutate.Reason = "BadAnnotation"
	reasonError         mutate.Reason = "Error"
)

// Metrics counts reviews. No label comes from a user.
type Metrics struct {
	reviews   *prometheus.CounterVec
	notes     *prometheus.CounterVec
	liveReads prometheus.Counter
}

// NewMetrics returns metrics that registry serves.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_webhook_reviews_total",
			Help: "Admission reviews answered, by result (injected, untouched, denied, failed) and reason.",
		}, []string{"result", "reason"}),
		notes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_webhook_notes_total",
			Help: "Things not done, or not as might be expected, in admission reviews, by reason (see docs/injection.md).",
		}, []string{"reason"}),
		liveReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "servingcert_webhook_live_reads_total",
			Help: "Reviews that the informers did not settle and that waited for a read of the API server.",
		}),
	}
	for _, c := range []prometheus.Collector{m.reviews, m.notes, m.liveReads} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) count(r result, reason mutate.Reason, notes []mutate.Note) {
	m.reviews.WithLabelValues(string(r), string(reason)).Inc()
	for _, n := range notes {
		m.notes.WithLabelValues(string(n.Reason)).Inc()
	}
}
