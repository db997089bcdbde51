package requests

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Request is what is remembered of a request of either kind.
type Request interface {
	comparable // a pointer
	client.Object
	// IsPending reports whether the request is addressed to this signer and has no answer.
	IsPending() bool
	// Tenant returns in whose turn the request is looked at: a namespace, or something that
	// is the name of none.
	Tenant() string
}

// Followed is the requests of one kind, and what this process has done about them.
type Followed[R Request] struct {
	config   Config
	requests *facts.Informer[R]
	events   events.EventRecorder
	said     sync.Map // types.UID -> what was said last of a request
	looks    *ratelimit.Looks
	metrics  *Metrics
	fanOut   *facts.FanOut
}

// NewFollowed returns the requests of an informer, of which nothing was done yet.
func NewFollowed[R Request](config Config, requests *facts.Informer[R], recorder events.EventRecorder, metrics *Metrics) *Followed[R] {
	return &Followed[R]{config: config, requests: requests, events: recorder, looks: ratelimit.NewLooks(), metrics: metrics, fanOut: facts.NewFanOut("requests")}
}

// item is the request in the controller's queue: its namespace is the tenant.
func item[R Request](r R) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.Tenant(), Name: r.GetName()}}
}

// Next returns the request of the given name that is to be decided about now; false if it
// has an answer, and a time if it is not to be looked at before: it waits for its Slot, and
// nothing else can make it right, or it was looked at too often.
func (f *Followed[R]) Next(key types.NamespacedName) (r R, after time.Duration, now bool) {
	var none R
	r = f.requests.Get(key)
	at := f.config.Clock()
	if r == none || !r.IsPending() {
		return r, 0, false
	}
	if slot := f.config.Pace.Slot(ratelimit.RequestName(r.Tenant(), r.GetUID())).At(); slot.After(at) {
		return r, slot.Sub(at), false
	}
	if free := f.looks.At(r.Tenant(), r.GetUID(), at); free.After(at) {
		return r, free.Sub(at), false
	}
	return r, 0, true
}

// Waits says why a request waits, and that finding it out took so many calls of the API server.
func (f *Followed[R]) Waits(r R, calls int, regarding runtime.Object, reason, message string) {
	f.looks.Waits(r.Tenant(), r.GetUID(), calls, f.config.Clock())
	f.Say(r, regarding, reason, message)
}

// Wrote returns once the cache has seen the version that a write to a request was answered with.
func (f *Followed[R]) Wrote(ctx context.Context, resourceVersion string) {
	f.requests.Await(ctx, resourceVersion)
}

// Issued counts a certificate, for which the request has used its Slot.
func (f *Followed[R]) Issued(r R) {
	f.config.Pace.Use(ratelimit.RequestName(r.Tenant(), r.GetUID()))
	f.metrics.issued.Inc()
}

// Failed counts a request that was refused, or an attempt to sign one that failed.
func (f *Followed[R]) Failed(reason string) { f.metrics.failures.WithLabelValues(reason).Inc() }

// Say emits an event about a request that has no certificate, unless it was the last thing
// that was said of it.
func (f *Followed[R]) Say(r R, regarding runtime.Object, reason, message string) {
	what := reason + " " + message
	if last, _ := f.said.Swap(r.GetUID(), what); last != what {
		f.events.Eventf(regarding, nil, corev1.EventTypeWarning, reason, actionIssue, "%s", signer.EventNote(message))
	}
}

// actionIssue is the action of every event.
const actionIssue = "Issue"

// forget forgets a request that was pending, about which nothing more is done.
func (f *Followed[R]) forget(r R) {
	f.said.Delete(r.GetUID())
	f.looks.Forget(r.GetUID())
	f.config.Pace.Use(ratelimit.RequestName(r.Tenant(), r.GetUID()))
}
