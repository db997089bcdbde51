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

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Request is the cached part of a request of any kind.
type Request interface {
	comparable // a pointer
	client.Object
	// IsPending reports whether the request is for this signer and has no answer.
	IsPending() bool
	// Tenant returns the tenant in whose turn the request is decided: a namespace, or a text
	// that is not a valid namespace.
	Tenant() string
}

// Followed holds the requests of one kind, and the state of their processing.
type Followed[R Request] struct {
	config   Config
	requests *facts.Informer[R]
	events   events.EventRecorder
	last     sync.Map // types.UID -> reason and message of the last event
	looks    *ratelimit.Looks
	metrics  *Metrics
	fanOut   *facts.FanOut
}

// NewFollowed returns a Followed of the informer's requests.
func NewFollowed[R Request](config Config, requests *facts.Informer[R], recorder events.EventRecorder, metrics *Metrics) *Followed[R] {
	return &Followed[R]{config: config, requests: requests, events: recorder, looks: ratelimit.NewLooks(), metrics: metrics, fanOut: facts.NewFanOut("requests")}
}

// item returns the key of the request in the controller's queue: its namespace is the tenant.
func item[R Request](r R) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.Tenant(), Name: r.GetName()}}
}

// Next returns the request with the key, and whether to decide it now. It returns false for a
// request that has an answer. It also returns false, with a delay, for a request that waits for
// its Slot or was decided too often.
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

// Waits reports why a request waits, and counts the API calls that the decision took.
func (f *Followed[R]) Waits(r R, calls int, regarding runtime.Object, reason, message string) {
	f.looks.Waits(r.Tenant(), r.GetUID(), calls, f.config.Clock())
	f.Say(r, regarding, reason, message)
}

// Wrote returns once the cache has the resource version of a write to a request.
func (f *Followed[R]) Wrote(ctx context.Context, resourceVersion string) {
	f.requests.Await(ctx, resourceVersion)
}

// Issued counts a certificate, and releases the Slot that the request has used.
func (f *Followed[R]) Issued(r R) {
	f.config.Pace.Use(ratelimit.RequestName(r.Tenant(), r.GetUID()))
	f.metrics.issued.Inc()
}

// Failed counts and reports a request that was refused, or a failed attempt to sign one.
func (f *Followed[R]) Failed(r R, regarding runtime.Object, reason, message string) {
	f.metrics.failures.WithLabelValues(reason).Inc()
	f.Say(r, regarding, reason, message)
}

// Say emits an event about a request that has no certificate, unless it equals the last event
// about it.
func (f *Followed[R]) Say(r R, regarding runtime.Object, reason, message string) {
	event := reason + " " + message
	if last, _ := f.last.Swap(r.GetUID(), event); last != event {
		f.events.Eventf(regarding, nil, corev1.EventTypeWarning, reason, actionIssue, "%s", api.EventNote(message))
	}
}

// actionIssue is the action of every event.
const actionIssue = "Issue"

// forget deletes the state of a request that is no longer pending.
func (f *Followed[R]) forget(r R) {
	f.last.Delete(r.GetUID())
	f.looks.Forget(r.GetUID())
	f.config.Pace.Use(ratelimit.RequestName(r.Tenant(), r.GetUID()))
}
