// Package controller finds the missed pods of every namespace, reports them by events, and counts
// them in metric servingcert_missed_pods. Package uninjected decides.
package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

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
	r := &reconciler{cluster: c, cfg: cfg, conventional: &conventional{}, state: newState(), clients: newClients(), events: eventWriter{c.Recorder()}, changed: changed}
	if err := c.Metrics.Register(r.state); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	enqueue := func(q facts.Queue, namespaces ...string) {
		for _, namespace := range namespaces {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}, c.Delay)
		}
	}
	return c.AddController("missed-pods", controller.Options{Reconciler: r},
		c.Pods.Source("pods", onPod(enqueue)),
		source.Kind(c.Services, facts.Metadata("Namespace"), onChange(func(q facts.Queue, ns *metav1.PartialObjectMetadata, stays bool) {
			enqueue(q, ns.Name)
			if !stays { // its Services begin to count, or end
				enqueue(q, r.clients.ofNamespace(ns.Name)...)
			}
		})),
		source.Kind(c.Services, &corev1.Service{}, onChange(func(q facts.Queue, svc *corev1.Service, _ bool) {
			enqueue(q, svc.Namespace)
			enqueue(q, r.clients.ofService(client.ObjectKeyFromObject(svc))...)
		}), servicePredicate{}),
		source.Kind(published, &corev1.ConfigMap{}, r.conventional.handler(enqueue)),
	)
}

// onPod enqueues the namespace of a pod that was created, deleted, or changed in its facts, as few
// updates do.
func onPod(enqueue func(facts.Queue, ...string)) facts.Handler[*pods.Facts] {
	return func(_ context.Context, q facts.Queue, before, after *pods.Facts) {
		if before == nil || after == nil || before.Template != after.Template || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
			enqueue(q, cmp.Or(after, before).Namespace)
		}
	}
}

// onChange calls enqueue with what has changed, and whether it was there before and is there still.
func onChange[T client.Object](enqueue func(q facts.Queue, object T, stays bool)) handler.TypedFuncs[T, reconcile.Request] {
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q facts.Queue) { enqueue(q, e.Object, false) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q facts.Queue) { enqueue(q, e.ObjectNew, true) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q facts.Queue) { enqueue(q, e.Object, false) },
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
	return asked != asks || connectDiffers(e.ObjectOld, e.ObjectNew) || before != after || api.WantsPodKeys(e.ObjectOld) != api.WantsPodKeys(e.ObjectNew) || !maps.Equal(e.ObjectOld.Spec.Selector, e.ObjectNew.Spec.Selector) ||
		api.Asks(e.ObjectNew) && !equality.Semantic.DeepEqual(e.ObjectOld.Spec.Ports, e.ObjectNew.Spec.Ports)
}

// connectDiffers reports whether the two differ in what decides, beside their ports, whether pods connect to them, or to
// which Services their own pods connect.
func connectDiffers(a, b *corev1.Service) bool {
	keys := []string{api.AnnotationConnect, api.AnnotationIssuer, api.AnnotationProbe}
	return !maps.Equal(api.KeepOnly(a.Annotations, keys), api.KeepOnly(b.Annotations, keys)) || !slices.Equal(a.Spec.ClusterIPs, b.Spec.ClusterIPs)
}
