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
	last     sync.Map // types.UID -> said
	looks    *ratelimit.Looks
	metrics  *Metrics
	fanOut   *facts.FanOut
}

// said is the last event about a request.
type said struct{ reason, message string }

// NewFollowed returns a Followed of the informer's requests.
func NewFollowed[R Request](config Config, requests *facts.Informer[R], recorder events.EventRecorder, metrics *Metrics) *Followed[R] {
	return &Followed[R]{config: config, requests: requests, events: recorder, looks: ratelimit.NewLooks(), metrics: metrics, fanOut: facts.NewFanOut("requests")}
}

// item returns the key of the request in the controller's queue: its namespace is the tenant.
func item[R Request](r R) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.Tenant(), Name: r.GetName()}}
}

// Decide calls decide with the request of the key, unless it has an answer, waits for its Slot or was
// decided too often. The request may be answered or deleted meanwhile, and its event come before what
// the decision remembers of it: that is then forgotten.
func (f *Followed[R]) Decide(key types.NamespacedName, decide func(R) (reconcile.Result, error)) (reconcile.Result, error) {
	r, after, now := f.next(key)
	if !now {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	defer func() {
		if answered(r, f.requests.Get(key)) {
			f.forget(r)
		}
	}()
	return decide(r)
}

// answered reports, by what is in the place of a pending request after a change, whether it was
// answered or deleted.
func answered[R Request](r, after R) bool {
	var none R
	return after == none || after.GetUID() != r.GetUID() || !after.IsPending()
}

// next returns the request with the key, and whether to decide it now, or after which delay.
func (f *Followed[R]) next(key types.NamespacedName) (r R, after time.Duration, now bool) {
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
	event := said{reason, message}
	if last, _ := f.last.Swap(r.GetUID(), event); last != event {
		f.events.Eventf(regarding, nil, corev1.EventTypeWarning, reason, actionIssue, "%s", api.EventNote(message))
	}
}

// Waiting returns the number of pending requests by the reason of the last event about them.
func (f *Followed[R]) Waiting() map[string]int {
	counts := map[string]int{}
	for r := range f.requests.All() {
		if last, ok := f.last.Load(r.GetUID()); ok && r.IsPending() {
			counts[last.(said).reason]++
		}
	}
	return counts
}

// actionIssue is the action of every event.
const actionIssue = "Issue"

// forget deletes the state of a request that is no longer pending.
func (f *Followed[R]) forget(r R) {
	f.last.Delete(r.GetUID())
	f.looks.Forget(r.GetUID())
	f.config.Pace.Use(ratelimit.RequestName(r.Tenant(), r.GetUID()))
}
