// Package controller follows which pods serve the certificate of their Secret: it
// has them dialled, keeps condition Serving of the Services, and reports stale
// workloads. What it does is decided in package serving.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	judged "github.com/servingcert/servingcert/pkg/rotator/probe"
	probecontroller "github.com/servingcert/servingcert/pkg/rotator/probe/controller"
)

// Partners are those that the controller works with.
type Partners struct {
	// Dial has a pod dialled; Ledger.Record takes what it answered.
	Dial func(judged.Visit)
	// Restarts is to look at a namespace whose stale workloads have changed. Rotated is to look at a Secret that pods mount and whose
	// certificate has changed, or is known for the first time.
	Restarts, Rotated *cluster.Trigger
	// Trust is what the certificates of pods with keys of their own are judged by.
	Trust *probecontroller.Trust
}

// rotationDelay is how long a new certificate, and pods that were woken, are waited
// for: the signer writes the conditions of several Services one after the other.
const rotationDelay = 100 * time.Millisecond

// Setup adds the controller. Its unit of work is a key: a Secret's, or those of the pods of
// a namespace that have keys of their own.
func Setup(c *cluster.Cluster, cfg Config, l *Ledger, p Partners) error {
	if err := c.Services.IndexField(context.Background(), &corev1.Service{}, byPart, indexPart); err != nil {
		return fmt.Errorf("index Services: %w", err)
	}
	r := &reconciler{
		cluster: c, cfg: cfg, partners: p, ledger: l,
		conditions: c.Conditions(api.ConditionServing), events: eventWriter{c.Recorder()}, propagation: newPropagation(), refresh: newRefresh(),
	}
	if err := errors.Join(c.Metrics.Register(l), c.Metrics.Register(r.propagation), c.Metrics.Register(r.refresh)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	sources := []source.Source{source.Kind(c.Services, &corev1.Service{}, r.onService(c.Delay)), l.answered, l.woken}
	if cfg.Verify {
		sources = append(sources, c.Pods.Source("pods that mount a certificate", onPod(l, c.Delay)), source.Kind(p.Trust.Cache, &corev1.ConfigMap{}, onTrust(l, c.Delay)))
	}
	return c.AddController("consumers", controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, time.Minute),
		Reconciler:  r,
	}, sources...)
}

// byPart finds the Services of a key: those with a part in a Secret; for pods.PodKey those
// that ask for a certificate; for no Key those with a part in neither that still have a
// condition Serving.
const byPart = "servingcert.part"

func indexPart(object client.Object) []string {
	svc, ok := object.(*corev1.Service)
	if !ok {
		return nil
	}
	var parts []string
	for _, key := range partsOf(svc) {
		parts = append(parts, textOf(key))
	}
	return parts
}

func partsOf(svc *corev1.Service) []pods.Key {
	var parts []pods.Key
	if secret, ok := state.PartIn(svc); ok {
		parts = append(parts, pods.SecretKey(secret))
	}
	if api.Asks(svc) {
		parts = append(parts, pods.PodKey)
	}
	if len(parts) > 0 {
		return parts
	}
	if svc.DeletionTimestamp == nil && api.Condition(svc, api.ConditionServing) != nil {
		return []pods.Key{{}}
	}
	return nil
}

// onService enqueues the Secrets that a Service has, and had, a part in, if
// anything has changed that is kept of it. A new certificate is not waited for long.
func (r *reconciler) onService(delay time.Duration) handler.TypedFuncs[*corev1.Service, reconcile.Request] {
	enqueue := func(q facts.Queue, delay time.Duration, services ...*corev1.Service) {
		for _, svc := range services {
			for _, key := range partsOf(svc) {
				q.AddAfter(requestOf(pods.NamespacedKey{Namespace: svc.Namespace, Key: key}), delay)
			}
			if key := podKeysOf(svc.Namespace); r.ledger.follows(key) { // which may count the pods of this one's Secret
				q.AddAfter(requestOf(key), delay)
			}
		}
	}
	return handler.TypedFuncs[*corev1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Service], q facts.Queue) {
			enqueue(q, delay, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Service], q facts.Queue) {
			before, after := e.ObjectOld, e.ObjectNew
			if leaf, ok := state.LeafOf(after); ok && hasOther(before, leaf) {
				enqueue(q, min(delay, rotationDelay), after)
			}
			if before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !maps.Equal(before.Annotations, after.Annotations) ||
				!reflect.DeepEqual(before.Spec, after.Spec) || !reflect.DeepEqual(before.Status, after.Status) {
				enqueue(q, delay, before, after)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q facts.Queue) {
			enqueue(q, delay, e.Object)
		},
	}
}

// hasOther reports whether the Service names another leaf, or none.
func hasOther(svc *corev1.Service, leaf string) bool {
	other, _ := state.LeafOf(svc)
	return other != leaf
}

// onPod enqueues the Secrets of a pod that came, went, or changed in what matters
// here; of one that mirrors a static pod those of its namespace, since what it reads is not known.
// Secrets that nobody follows are passed over: most Secrets that pods mount hold no certificate.
func onPod(l *Ledger, delay time.Duration) facts.Handler[*pods.Facts] {
	enqueue := func(q facts.Queue, f *pods.Facts) {
		if f.Template.Value().Mirror() {
			for _, key := range l.secretsIn(f.Namespace) {
				q.AddAfter(requestOf(key), delay)
			}
			return
		}
		secrets := f.Secrets()
		for _, secret := range secrets {
			if key := (pods.NamespacedKey{Namespace: f.Namespace, Key: pods.SecretKey(secret)}); l.follows(key) {
				q.AddAfter(requestOf(key), delay)
			}
		}
		// A Secret that a Service keeps is not followed by itself.
		if key := podKeysOf(f.Namespace); f.HasPodKey() || len(secrets) > 0 && l.follows(key) {
			q.AddAfter(requestOf(key), delay)
		}
	}
	return func(_ context.Context, q facts.Queue, before, after *pods.Facts) {
		switch {
		case before == nil || after == nil:
			enqueue(q, cmp.Or(after, before))
		case before.Template != after.Template || before.UID != after.UID:
			enqueue(q, before)
			enqueue(q, after)
		case before.Ready != after.Ready || before.IP != after.IP || before.OnNode != after.OnNode || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil):
			enqueue(q, after)
		}
	}
}

// onTrust enqueues all pods with keys of their own when another bundle is published, or
// another generation signs.
func onTrust(l *Ledger, delay time.Duration) handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request] {
	enqueue := func(q facts.Queue) {
		for _, key := range l.podKeys() {
			q.AddAfter(requestOf(key), delay)
		}
	}
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[*corev1.ConfigMap], q facts.Queue) { enqueue(q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q facts.Queue) {
			before, after := e.ObjectOld.Data, e.ObjectNew.Data
			if before[api.BundleKey] != after[api.BundleKey] || before[api.CAGeneration] != after[api.CAGeneration] {
				enqueue(q)
			}
		},
	}
}
