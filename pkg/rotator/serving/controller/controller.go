package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// reconciler tracks the consumers of Secrets, and the pods with their own keys.
type reconciler struct {
	cluster *cluster.Cluster
	cfg     Config
	deps    Dependencies

	state       *State
	conditions  *cluster.Conditions // Serving
	guarded     *cluster.Conditions // Guarded
	events      eventWriter
	propagation prometheus.Histogram
	refresh     prometheus.Histogram
}

// Reconcile decides about one key.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key, now := keyOf(req), r.cluster.Now()
	before := r.state.open(key, now)
	s, err := r.gather(ctx, key, serving.Common{Now: now, Namespace: key.Namespace, KeyState: before.state, Pace: r.cfg.pace(), Off: !r.cfg.Verify})
	if err != nil {
		return reconcile.Result{}, err
	}
	d := s.Decide()
	return reconcile.Result{RequeueAfter: d.After}, r.act(ctx, key, before, d)
}

// situation is the input of a decision: serving.SecretSituation or serving.PodKeySituation.
type situation interface{ Decide() serving.Decision }

// gather adds the Services and pods of the key to known.
func (r *reconciler) gather(ctx context.Context, key pods.NamespacedKey, known serving.Common) (situation, error) {
	list, err := r.services(ctx, key)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		known.Services = append(known.Services, &list.Items[i])
	}
	if slices.ContainsFunc(known.Services, api.Guards) {
		var all corev1.ServiceList
		if err := r.cluster.Services.List(ctx, &all, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Services of namespace %s from the cache: %w", key.Namespace, err)
		}
		for i := range all.Items {
			if api.Guards(&all.Items[i]) {
				known.Listing = append(known.Listing, &all.Items[i])
			}
		}
	}
	slices.SortFunc(known.Services, api.OlderFirst)
	if r.cfg.Verify && (key.Key != pods.PodKey || slices.ContainsFunc(known.Services, api.WantsPodKeys)) {
		known.OnlyKept = serving.OnlyKept(known.Services, func() []*pods.Facts { return r.cluster.Pods.In(key.Namespace) })
		known.Keyless = r.state.findKeyless(key, known.Services, func() []*pods.Facts { return r.cluster.Pods.In(key.Namespace) })
	}
	if key.Key == pods.PodKey {
		return r.gatherPodKeys(ctx, known)
	}
	secret, ok := key.Key.Secret()
	if !ok {
		return serving.SecretSituation{Common: known}, nil
	}
	known.Pods = slices.Concat(r.cluster.Pods.Mounting(key), r.cluster.Pods.Mirrors(key.Namespace))
	known.Unresponsive = r.state.unresponsive(known.Pods)
	return serving.SecretSituation{Common: known, Secret: secret, PodKeys: r.state.seen(podKeysOf(key.Namespace))}, nil
}

func (r *reconciler) gatherPodKeys(ctx context.Context, known serving.Common) (situation, error) {
	kept := keptSecrets(known.Services)
	shared, err := r.shared(ctx, known.Namespace, kept)
	if err != nil {
		return nil, err
	}
	keys := []pods.Key{pods.PodKey}
	if slices.ContainsFunc(known.Services, api.HasOtherPodKeys) {
		keys = append(keys, pods.OtherPodKey)
	}
	for _, secret := range kept {
		keys = append(keys, pods.SecretKey(secret))
	}
	known.Pods = r.podsWith(known.Namespace, keys)
	known.Unresponsive = r.state.unresponsive(known.Pods)
	return serving.PodKeySituation{Common: known, Trust: r.deps.Prober.Trust.Get(ctx), Shared: shared}, nil
}

// services returns the Services of the key.
func (r *reconciler) services(ctx context.Context, key pods.NamespacedKey) (list corev1.ServiceList, err error) {
	err = r.cluster.Services.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{byPart: key.Key.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return list, fmt.Errorf("list Services of Secret %s from the cache: %w", nameOf(key), err)
	}
	return list, nil
}

// keptSecrets returns the Secrets that Services keep from before their pods had their own keys.
func keptSecrets(services []*corev1.Service) []string {
	var kept []string
	for _, svc := range services {
		if api.WantsPodKeys(svc) {
			kept = append(kept, state.ReadyOf(svc).Kept...)
		}
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}

// podsWith returns the pods that mount one of the keys, each once.
func (r *reconciler) podsWith(namespace string, keys []pods.Key) (found []*pods.Facts) {
	known := map[types.UID]bool{}
	for _, key := range keys {
		for _, pod := range r.cluster.Pods.Mounting(pods.NamespacedKey{Namespace: namespace, Key: key}) {
			if !known[pod.UID] {
				known[pod.UID] = true
				found = append(found, pod)
			}
		}
	}
	return found
}

// shared returns the Secrets in which a Service has a part.
func (r *reconciler) shared(ctx context.Context, namespace string, kept []string) (map[string]bool, error) {
	shared := map[string]bool{}
	for _, secret := range kept {
		list, err := r.services(ctx, pods.NamespacedKey{Namespace: namespace, Key: pods.SecretKey(secret)})
		if err != nil {
			return nil, err
		}
		if len(list.Items) > 0 {
			shared[secret] = true
		}
	}
	return shared, nil
}

func (r *reconciler) act(ctx context.Context, key pods.NamespacedKey, before keyState, d serving.Decision) error {
	err := errors.Join(write(ctx, r.conditions, d.Conditions), write(ctx, r.guarded, d.Guarded))
	if d.Forget {
		r.state.forget(key)
	} else {
		r.state.put(key, keyState{state: d.KeyState, states: d.States, guards: d.GuardStates, notAfter: d.NotAfter, stale: d.Stale, seen: d.Seen})
	}
	if key.Key == pods.PodKey && !before.seen.Equal(d.Seen) {
		r.enqueueSecrets(key.Namespace, slices.Concat(before.seen.Services(), d.Seen.Services()))
	}
	if secret, ok := key.Key.Secret(); ok && r.deps.Rotated != nil {
		is, _ := d.KeyState.Rotation()
		if was, _ := before.state.Rotation(); was != is && len(r.cluster.Pods.Mounting(key)) > 0 {
			r.deps.Rotated.Enqueue(types.NamespacedName{Namespace: key.Namespace, Name: secret})
		}
	}
	for _, v := range d.Dial {
		r.deps.Prober.Enqueue(v)
	}
	for _, took := range d.Arrivals {
		r.propagation.Observe(took.Seconds())
	}
	for _, late := range d.RefreshDelays {
		r.refresh.Observe(late.Seconds())
	}
	if len(d.Notify) > 0 {
		log.FromContext(ctx).Info("pods serve an older certificate than they should", "workloads", len(d.Notify), "leaf", d.Notify[0].Leaf, "since", d.Notify[0].Since)
	}
	for _, stale := range d.Notify {
		r.events.servesOld(key.Namespace, stale)
	}
	if !slices.EqualFunc(before.stale, d.Stale, serving.StaleWorkload.Equal) {
		r.deps.StaleChanged.EnqueueNamespace(key.Namespace)
	}
	return err
}

// enqueueSecrets enqueues the Secrets of the Services, because their conditions also depend on pods
// with their own keys.
func (r *reconciler) enqueueSecrets(namespace string, services []*corev1.Service) {
	enqueued := map[string]bool{}
	for _, svc := range services {
		if secret, ok := state.PartIn(svc); ok && !enqueued[secret] {
			enqueued[secret] = true
			r.state.answered.Enqueue(types.NamespacedName{Namespace: namespace, Name: secret})
		}
	}
}
