package rotator

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
)

// conventional knows which namespaces have the conventional Secret, by the word of
// the signer: the rotator may read no Secret, not even that there is one.
type conventional struct {
	namespaces atomic.Pointer[map[string]bool]
}

func (c *conventional) in(namespace string) bool {
	known := c.namespaces.Load()
	return known != nil && (*known)[namespace]
}

// set takes in what the signer says now, and returns the namespaces of which it
// said something else before.
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
func (c *conventional) handler(enqueue func(q queue, namespace string)) handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request] {
	is := func(cm *corev1.ConfigMap, q queue) {
		for _, namespace := range c.set(cm) {
			enqueue(q, namespace)
		}
	}
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q queue) { is(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q queue) { is(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[*corev1.ConfigMap], q queue) { is(nil, q) },
	}
}
