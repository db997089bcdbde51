package admission

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// result is the result of a review.
type result string

const (
	resultInjected  result = "injected"  // patched, or found injected already
	resultUntouched result = "untouched" // nothing injected; the reason says why
	resultDenied    result = "denied"    // the pod's own annotations are not valid
	resultFailed    result = "failed"    // no answer: failurePolicy decides
)

// Reasons of reviews that failed or were denied.
const (
	reasonBadAnnotation  reasons.Reason = "BadAnnotation"
	reasonTooLarge       reasons.Reason = "TooLarge"
	reasonNoPodKeys      reasons.Reason = "NoPodKeys"
	reasonNotOptedIn     reasons.Reason = "NotOptedIn"
	reasonTooManyReviews reasons.Reason = "TooManyReviews"
	reasonError          reasons.Reason = "Error"
)

// outcome is what the API server got for a request, the label of how long that took. A
// result says more; but only what was answered is known of every request.
type outcome string

const (
	outcomePatched   outcome = "patched"
	outcomeUnchanged outcome = "unchanged"
	outcomeDenied    outcome = "denied"
	outcomeFailed    outcome = "failed" // no review was answered
)

// outcomeOf returns the outcome of a request that is answered so.
func outcomeOf(resp *admission.Response) outcome {
	switch {
	case !resp.Allowed && resp.Result.Code != http.StatusForbidden:
		return outcomeFailed
	case !resp.Allowed:
		return outcomeDenied
	case len(resp.Patch) > 0:
		return outcomePatched
	}
	return outcomeUnchanged
}

// metrics counts reviews. No label comes from a user.
type metrics struct {
	reviews   *prometheus.CounterVec
	durations *prometheus.HistogramVec
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
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "servingcert_webhook_review_duration_seconds",
			Help: "Time from the header of a request to its answer, by outcome (patched, unchanged, denied, failed). The API server waits 5 s.",
			// controller_runtime_webhook_latency_seconds has a bucket for each power of ten.
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 1, 2.5, 5, 10},
		}, []string{"outcome"}),
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
	for _, c := range []prometheus.Collector{m.reviews, m.durations, m.notes, m.liveReads, m.programs} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	for _, o := range []outcome{outcomePatched, outcomeUnchanged, outcomeDenied, outcomeFailed} {
		m.durations.WithLabelValues(string(o)) // a series that starts at 0 makes rates right
	}
	return m, nil
}

// took counts a request that was answered after the given time.
func (m *metrics) took(o outcome, d time.Duration) {
	m.durations.WithLabelValues(string(o)).Observe(d.Seconds())
}

func (m *metrics) count(r result, reason reasons.Reason, notes []reasons.Note) {
	m.reviews.WithLabelValues(string(r), string(reason)).Inc()
	for _, n := range notes {
		m.notes.WithLabelValues(string(n.Reason)).Inc()
	}
}
