package admission

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
)

// result is the result of a review.
type result string

const (
	resultInjected  result = "injected"  // patched, or found injected already
	resultUntouched result = "untouched" // nothing injected; the reason says why
	resultDenied    result = "denied"    // the pod's own annotations are not valid
	resultFailed    result = "failed"    // no answer: failurePolicy decides
)

// reasonError is the reason of a review that failed, or that was denied.
const (
	reasonBadAnnotation mutate.Reason = "BadAnnotation"
	reasonTooLarge      mutate.Reason = "TooLarge"
	reasonNoPodKeys     mutate.Reason = "NoPodKeys"
	reasonNotOptedIn    mutate.Reason = "NotOptedIn"
	reasonTooMany       mutate.Reason = "TooManyReviews"
	reasonError         mutate.Reason = "Error"
)

// metrics counts reviews. No label comes from a user.
type metrics struct {
	reviews   *prometheus.CounterVec
	notes     *prometheus.CounterVec
	liveReads prometheus.Counter
	programs  prometheus.Gauge
}

// newMetrics returns metrics that are registered with registry.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_webhook_reviews_total",
			Help: "Admission reviews answered, by result (injected, untouched, denied, failed) and reason.",
		}, []string{"result", "reason"}),
		notes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_webhook_notes_total",
			Help: "What admission reviews left out or did in another way than might be expected, by reason (see docs/injection.md).",
		}, []string{"reason"}),
		liveReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "servingcert_webhook_live_reads_total",
			Help: "Reviews that the informers could not decide and that waited for a read from the API server.",
		}),
		programs: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "servingcert_webhook_programs_valid",
			Help: "1 if the table of programs in ConfigMap " + api.ProgramsName + " is valid or absent, 0 if it was refused and the last valid one is in use.",
		}),
	}
	for _, c := range []prometheus.Collector{m.reviews, m.notes, m.liveReads, m.programs} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) count(r result, reason mutate.Reason, notes []mutate.Note) {
	m.reviews.WithLabelValues(string(r), string(reason)).Inc()
	for _, n := range notes {
		m.notes.WithLabelValues(string(n.Reason)).Inc()
	}
}
