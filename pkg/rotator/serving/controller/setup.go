// Package controller tracks which pods serve the certificate of their Secret: it has them dialled,
// writes condition Serving of the Services, and reports stale workloads. Package serving decides.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	probecontroller "github.com/servingcert/servingcert/pkg/rotator/probe/controller"
)

// Dependencies are the controller's collaborators.
type Dependencies struct {
	// Prober dials the pods, and has the published state of the CA, for pods with their own keys.
	// State.Record receives the answers.
	Prober *probecontroller.Prober
	// StaleChanged enqueues a namespace whose stale workloads have changed. Rotated enqueues a
	// Secret that pods mount and whose certificate has changed, or is known for the first time.
	StaleChanged, Rotated *cluster.Trigger
}

// rotationDelay is the delay after a new certificate, or after pods were woken, because the signer
// writes the conditions of several Services one by one.
const rotationDelay = 100 * time.Millisecond

// Setup adds the controller. Its unit of work is a key: that of a Secret, or the pods' own keys in
// a namespace.
func Setup(c *cluster.Cluster, cfg Config, s *State, deps Dependencies) error {
	if err := c.Services.IndexField(context.Background(), &corev1.Service{}, byPart, indexPart); err != nil {
		return fmt.Errorf("index Services: %w", err)
	}
	r := &reconciler{
		cluster: c, cfg: cfg, deps: deps, state: s,
		conditions: c.Conditions(api.ConditionServing), guarded: c.Conditions(api.ConditionGuarded), events: eventWriter{c.Recorder()}, propagation: newPropagation(), refresh: newRefresh(),
	}
	if err := errors.Join(c.Metrics.Register(s), c.Metrics.Register(r.propagation), c.Metrics.Register(r.refresh)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	sources := []source.Source{source.Kind(c.Services, &corev1.Service{}, r.onService(c.Delay)), s.answered, s.woken}
	if cfg.Verify {
		sources = append(sources, c.Pods.Source("pods that mount a certificate", onPod(s, c.Delay)), source.Kind(deps.Prober.Trust.Cache, &corev1.ConfigMap{}, onTrust(s, c.Delay)))
	}
	return c.AddController("consumers", controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, time.Minute),
		Reconciler:  r,
	}, sources...)
}

// byPart is the index of Services by key: those with a part in a Secret; for pods.PodKey those that
// ask for a certificate; for the zero Key those with a part in neither that still have a condition
// Serving or Guarded.
const byPart = "servingcert.part"

func indexPart(object client.Object) []string {
	svc, ok := object.(*corev1.Service)
	if !ok {
		return nil
	}
	var parts []string
	for _, key := range partsOf(svc) {
		parts = append(parts, key.String())
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
	if svc.DeletionTimestamp == nil && (api.Condition(svc, api.ConditionServing) != nil || api.Condition(svc, api.ConditionGuarded) != nil) {
		return []pods.Key{{}}
	}
	return nil
}

// onService enqueues the Secrets in which a Service has or had a part, if its cached fields have
// changed; with a short delay if it has a new certificate.
func (r *reconciler) onService(delay time.Duration) handler.TypedFuncs[*corev1.Service, reconcile.Request] {
	enqueue := func(q facts.Queue, delay time.Duration, services ...*corev1.Service) {
		for _, svc := range services {
			for _, key := range partsOf(svc) {
				q.AddAfter(requestOf(pods.NamespacedKey{Namespace: svc.Namespace, Key: key}), delay)
			}
			if key := podKeysOf(svc.Namespace); r.state.follows(key) { // it may count pods with this Service's Secret
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
				!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status, after.Status) {
				enqueue(q, delay, before, after)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q facts.Queue) {
			enqueue(q, delay, e.Object)
		},
	}
}

// hasOther reports whether the Service has a different leaf, or none.
func hasOther(svc *corev1.Service, leaf string) bool {
	other, _ := state.LeafOf(svc)
	return other != leaf
}

// onPod enqueues the Secrets of a pod that was created, deleted, or changed in a relevant way. For
// a mirror pod, whose Secrets are unknown, it enqueues all of its namespace. It skips Secrets that
// are not tracked: most mounted Secrets have no certificate.
func onPod(s *State, delay time.Duration) facts.Handler[*pods.Facts] {
	enqueue := func(q facts.Queue, f *pods.Facts) {
		if f.Template.Value().Mirror() {
			for _, key := range s.secretsIn(f.Namespace) {
				q.AddAfter(requestOf(key), delay)
			}
			return
		}
		secrets := f.Secrets()
		for _, secret := range secrets {
			if key := (pods.NamespacedKey{Namespace: f.Namespace, Key: pods.SecretKey(secret)}); s.follows(key) {
				q.AddAfter(requestOf(key), delay)
			}
		}
		// A Secret that a Service keeps from before is not tracked by itself.
		if key := podKeysOf(f.Namespace); f.HasPodKey() || (len(secrets) > 0 || f.HasOtherPodKey()) && s.follows(key) {
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
		case before.Ready != after.Ready || before.IP != after.IP || before.OnNode != after.OnNode || before.Admits != after.Admits || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil):
			enqueue(q, after)
		}
	}
}

// onTrust enqueues all pods with their own keys after a change of the bundle or of the generation
// that signs.
func onTrust(s *State, delay time.Duration) handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request] {
	enqueue := func(q facts.Queue) {
		for _, key := range s.podKeys() {
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
