// Package controller reports the pods that fail after an injection: by condition
// servingcert.dev/PodsHealthy of the Services, by events, and in metric
// servingcert_failing_workloads. Package failing decides.
package controller

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/failing"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// The wait before a failed write is retried.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// Setup adds the controller. Its unit of work is a namespace.
func Setup(c *cluster.Cluster) error {
	r := &reconciler{cluster: c, conditions: c.Conditions(api.ConditionPodsHealthy), state: newState(), events: eventWriter{c.Recorder()}}
	if err := c.Metrics.Register(r.state); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	enqueue := func(q facts.Queue, namespace string) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}, c.Delay)
	}
	return c.AddController("failing-pods", controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		Reconciler:  r,
	}, c.Pods.Source("injected pods", r.onPod(enqueue)), source.Kind(c.Services, &corev1.Service{}, r.onService(enqueue)),
		source.Kind(c.Services, facts.Metadata("Namespace"), handler.TypedEnqueueRequestsFromMapFunc(opted)))
}

// onPod enqueues the namespace of an injected pod that was created, deleted or changed in a
// relevant way, and counts the deletions of young ones.
func (r *reconciler) onPod(enqueue func(facts.Queue, string)) facts.Handler[*pods.Facts] {
	return func(_ context.Context, q facts.Queue, before, after *pods.Facts) {
		if !concerns(before) && !concerns(after) || before != nil && after != nil && same(before, after) {
			return
		}
		if now := r.cluster.Now(); failing.Counts(before, after, now) {
			r.state.deleted(after, now)
		}
		enqueue(q, cmp.Or(after, before).Namespace)
	}
}

func concerns(f *pods.Facts) bool { return f != nil && f.Template.Value().Injection.Injected }

func same(a, b *pods.Facts) bool {
	return a.Template == b.Template && a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && a.Trouble.Equal(b.Trouble)
}

// onService enqueues the namespace of a Service whose condition or request has changed.
func (r *reconciler) onService(enqueue func(facts.Queue, string)) handler.TypedFuncs[*corev1.Service, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Service], q facts.Queue) {
			if matters(e.Object) {
				enqueue(q, e.Object.Namespace)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Service], q facts.Queue) {
			was, _ := api.Wants(e.ObjectOld)
			is, _ := api.Wants(e.ObjectNew)
			if was != is || api.Asks(e.ObjectOld) != api.Asks(e.ObjectNew) || e.ObjectOld.UID != e.ObjectNew.UID ||
				!equality.Semantic.DeepEqual(api.Condition(e.ObjectOld, api.ConditionPodsHealthy), api.Condition(e.ObjectNew, api.ConditionPodsHealthy)) {
				enqueue(q, e.ObjectNew.Namespace)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q facts.Queue) {
			if matters(e.Object) {
				enqueue(q, e.Object.Namespace)
			}
		},
	}
}

// opted enqueues a namespace that was opted in or out.
func opted(_ context.Context, ns *metav1.PartialObjectMetadata) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ns.Name}}}
}

// matters reports whether the condition may be written on the Service, or is on it.
func matters(svc *corev1.Service) bool {
	return api.Asks(svc) || api.Condition(svc, api.ConditionPodsHealthy) != nil
}
