package controller

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// conventional has the namespaces with the conventional Secret, as published by the signer: the
// rotator may not read Secrets.
type conventional struct {
	namespaces atomic.Pointer[map[string]bool]
}

func (c *conventional) in(namespace string) bool {
	known := c.namespaces.Load()
	return known != nil && (*known)[namespace]
}

// set stores the published list, and returns the namespaces that have changed.
func (c *conventional) set(cm *corev1.ConfigMap) (changed []string) {
	after := map[string]bool{}
	if cm != nil {
		after = api.ParseNamespaces(cm.Data[api.ConventionalNamespacesKey])
	}
	before := map[string]bool{}
	if old := c.namespaces.Swap(&after); old != nil {
		before = *old
	}
	for namespace := range after {
		if !before[namespace] {
			changed = append(changed, namespace)
		}
	}
	for namespace := range before {
		if !after[namespace] {
			changed = append(changed, namespace)
		}
	}
	return changed
}

// handler enqueues the namespaces in which the Secret came or went.
func (c *conventional) handler(enqueue func(q facts.Queue, namespaces ...string)) handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request] {
	is := func(cm *corev1.ConfigMap, q facts.Queue) {
		enqueue(q, c.set(cm)...)
	}
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q facts.Queue) { is(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q facts.Queue) {
			is(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[*corev1.ConfigMap], q facts.Queue) { is(nil, q) },
	}
}
