// Package controller finds the missed pods of every namespace, reports them by events, and counts
// them in metric servingcert_missed_pods. Package uninjected decides.
package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Setup adds the controller. Its unit of work is a namespace. changed is called after changes of a namespace's pods, with
// its Services that ask for a certificate.
func Setup(c *cluster.Cluster, cfg Config, changed func(namespace string, asking []*corev1.Service, all func() []*pods.Facts)) error {
	published, err := c.ConfigMap(api.ConventionalStatusName)
	if err != nil {
		return err
	}
	r := &reconciler{cluster: c, cfg: cfg, conventional: &conventional{}, state: newState(), events: eventWriter{c.Recorder()}, changed: changed}
	if err := c.Metrics.Register(r.state); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	enqueue := func(q facts.Queue, namespace string) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}, c.Delay)
	}
	return c.AddController("missed-pods", controller.Options{Reconciler: r},
		c.Pods.Source("pods", onPod(enqueue)),
		source.Kind(c.Services, facts.Metadata("Namespace"), onChange(func(q facts.Queue, ns *metav1.PartialObjectMetadata) { enqueue(q, ns.Name) })),
		source.Kind(c.Services, &corev1.Service{}, onChange(func(q facts.Queue, svc *corev1.Service) { enqueue(q, svc.Namespace) }), servicePredicate{}),
		source.Kind(published, &corev1.ConfigMap{}, r.conventional.handler(enqueue)),
	)
}

// onPod enqueues the namespace of a pod that was created, deleted, or changed in its facts, as few
// updates do.
func onPod(enqueue func(facts.Queue, string)) facts.Handler[*pods.Facts] {
	return func(_ context.Context, q facts.Queue, before, after *pods.Facts) {
		if before == nil || after == nil || before.Template != after.Template || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
			enqueue(q, cmp.Or(after, before).Namespace)
		}
	}
}

func onChange[T client.Object](enqueue func(facts.Queue, T)) handler.TypedFuncs[T, reconcile.Request] {
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q facts.Queue) { enqueue(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q facts.Queue) { enqueue(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q facts.Queue) { enqueue(q, e.Object) },
	}
}

// servicePredicate ignores Services that ask for nothing, and changes that do not affect pods, such
// as the signer's conditions.
type servicePredicate struct{}

func (servicePredicate) Create(e event.TypedCreateEvent[*corev1.Service]) bool {
	return api.Asks(e.Object)
}
func (servicePredicate) Delete(e event.TypedDeleteEvent[*corev1.Service]) bool {
	return api.Asks(e.Object)
}
func (servicePredicate) Generic(event.TypedGenericEvent[*corev1.Service]) bool { return false }
func (servicePredicate) Update(e event.TypedUpdateEvent[*corev1.Service]) bool {
	before, asked := api.Wants(e.ObjectOld)
	after, asks := api.Wants(e.ObjectNew)
	return asked != asks || before != after || api.WantsPodKeys(e.ObjectOld) != api.WantsPodKeys(e.ObjectNew) || !maps.Equal(e.ObjectOld.Spec.Selector, e.ObjectNew.Spec.Selector) ||
		api.Asks(e.ObjectNew) && !equality.Semantic.DeepEqual(e.ObjectOld.Spec.Ports, e.ObjectNew.Spec.Ports)
}
