// Package controller wakes the kubelets of pods whose files are to change: it writes annotations
// servingcert.dev/leaf and servingcert.dev/admits on the pods, at a bounded rate. Package kubeletsync decides.
package controller

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/kubeletsync"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
)

// Setup adds two controllers to mgr. The unit of work of the first is a Secret, or a namespace, which has no
// name; that of the second is a pod to be written. consumers has what the pods serve, and rotated enqueues a
// Secret with a new certificate; it is nil if pods are not woken.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, consumers *servingcontroller.State, rotated *cluster.Trigger) error {
	in := &inputs{cluster: c, consumers: consumers, wakes: cfg.Enabled}
	w := newWaker(cfg, in, mgr.GetClient())
	if err := c.Metrics.Register(w.results); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	sources := []source.Source{source.Kind(c.Services, &corev1.Service{}, onService(c.Delay))}
	if cfg.Enabled {
		var err error
		if in.bundles, err = facts.NewInformer(mgr, facts.Options[*corev1.ConfigMap, *kubeletsync.Bundle]{
			Example: &corev1.ConfigMap{}, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, api.BundleName), Derive: kubeletsync.BundleOf, LeaderOnly: true,
		}); err != nil {
			return fmt.Errorf("make the cache of bundles: %w", err)
		}
		if err := mgr.Add(in.bundles); err != nil {
			return fmt.Errorf("add a runnable: %w", err)
		}
		sources = append(sources, rotated, in.bundles.Source("bundles", onBundle(cfg.Delay)))
	}
	found := cluster.NewTrigger("pods to be woken", 0)
	if err := c.AddController("wakes", controller.Options{Reconciler: w}, found, c.Pods.Source("guarded pods", onPod)); err != nil {
		return err
	}
	return c.AddController("changed-files", controller.Options{Reconciler: &finder{inputs: in, waker: w, found: found}}, sources...)
}

// onPod enqueues a pod whose proxy admits only some clients: its annotation may not be that of its Services,
// because they have changed since it was created, or because somebody has changed it.
func onPod(_ context.Context, q facts.Queue, before, after *pods.Facts) {
	if after != nil && after.Template.Value().Guarded != "" && (before == nil || before.Admits != after.Admits || before.Running != after.Running || before.Template != after.Template) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(after)})
	}
}

// onService enqueues the namespace of a Service whose change may affect the clients that pods admit.
func onService(delay time.Duration) handler.TypedFuncs[*corev1.Service, reconcile.Request] {
	enqueue := func(q facts.Queue, svc *corev1.Service) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: svc.Namespace}}, delay)
	}
	return handler.TypedFuncs[*corev1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Service], q facts.Queue) {
			if _, guarded := e.Object.Annotations[api.AnnotationClients]; guarded {
				enqueue(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Service], q facts.Queue) {
			before, after := e.ObjectOld, e.ObjectNew
			old, was := before.Annotations[api.AnnotationClients]
			list, is := after.Annotations[api.AnnotationClients]
			if old != list || was != is || is && (!maps.Equal(before.Spec.Selector, after.Spec.Selector) || !equality.Semantic.DeepEqual(before.Spec.Ports, after.Spec.Ports)) {
				enqueue(q, after)
			}
		},
	}
}

// onBundle enqueues the namespace of a new bundle.
func onBundle(delay time.Duration) facts.Handler[*kubeletsync.Bundle] {
	return func(_ context.Context, q facts.Queue, before, after *kubeletsync.Bundle) {
		if after != nil && (before == nil || before.Hash != after.Hash) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: after.Namespace}}, delay)
		}
	}
}
