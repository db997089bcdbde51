// Package controller takes back the flags because of which programs exit: it keeps
// condition servingcert.dev/Flags of the Services, which the webhook reads, and deletes
// the pods that crash, so that they are made anew. What it does is decided in package
// correct.
package controller

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Partners are those that the controller works with.
type Partners struct {
	// Dial has a pod dialled; nil if no pod may be. Answers takes what it answered.
	Dial    func(probe.Visit)
	Answers *Answers
}

// Setup adds the controller to mgr. Its unit of work is a namespace.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, p Partners) error {
	r := &reconciler{
		cluster: c, cfg: cfg, partners: p, writer: mgr.GetClient(), conditions: c.Conditions(api.ConditionFlags),
		turns: newDeletions(cfg.Rate), events: eventWriter{c.Recorder()}, ledger: newLedger(), told: newTold(),
	}
	if err := c.Metrics.Register(r.ledger); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	enqueue := func(q facts.Queue, namespace string) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}, c.Delay)
	}
	return c.AddController("flags", controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](cfg.MinBackoff, cfg.MaxBackoff),
		Reconciler:  r,
	}, c.Pods.Source("pods that crash", onPod(enqueue)), source.Kind(c.Services, &corev1.Service{}, r.onService(enqueue)), p.Answers.answered,
		source.Kind(c.Services, cluster.NamespaceMetadata(), handler.TypedEnqueueRequestsFromMapFunc(r.opted)))
}

// onPod enqueues the namespace of a pod that crashes or has an attempt, if that, its
// crashes or its readiness changed.
func onPod(enqueue func(facts.Queue, string)) facts.Handler[*pods.Facts] {
	return func(_ context.Context, q facts.Queue, before, after *pods.Facts) {
		if concerns(before) || concerns(after) {
			if before == nil || after == nil || differ(before, after) {
				enqueue(q, cmp.Or(after, before).Namespace)
			}
		}
	}
}

func concerns(f *pods.Facts) bool {
	return f != nil && (f.Crashes != nil || f.Template.Value().Given != pods.Given{})
}

func differ(before, after *pods.Facts) bool {
	return before.Template != after.Template || before.UID != after.UID || before.Ready != after.Ready ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !reflect.DeepEqual(before.Crashes, after.Crashes) || !reflect.DeepEqual(before.Unready, after.Unready)
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
			if was != is || e.ObjectOld.UID != e.ObjectNew.UID ||
				!reflect.DeepEqual(api.Condition(e.ObjectOld, api.ConditionFlags), api.Condition(e.ObjectNew, api.ConditionFlags)) {
				enqueue(q, e.ObjectNew.Namespace)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q facts.Queue) {
			r.conditions.Deleted(e.Object)
			if matters(e.Object) {
				enqueue(q, e.Object.Namespace)
			}
		},
	}
}

// opted enqueues a namespace that was opted in or out. In what pods of any other say, nobody
// looks.
func (r *reconciler) opted(_ context.Context, ns *metav1.PartialObjectMetadata) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ns.Name}}}
}

// matters reports whether facts may be written on the Service, or are on it.
func matters(svc *corev1.Service) bool {
	_, asks := api.Wants(svc)
	return asks || api.Condition(svc, api.ConditionFlags) != nil
}
