package controller

import (
	"context"
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

// reconciler follows the consumers of Secrets, and the pods with keys of their own.
type reconciler struct {
	cluster  *cluster.Cluster
	cfg      Config
	partners Partners

	ledger      *Ledger
	conditions  *cluster.Conditions // Serving
	events      eventWriter
	propagation prometheus.Histogram
	refresh     prometheus.Histogram
}

// Reconcile looks at what one key is about.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key, now := keyOf(req), r.cluster.Now()
	before := r.ledger.open(key, now)
	s, err := r.gather(ctx, key, serving.Common{Now: now, Namespace: key.Namespace, Memory: before.memory, Pace: r.cfg.pace(), Off: !r.cfg.Verify})
	if err != nil {
		return reconcile.Result{}, err
	}
	d := s.Decide()
	return reconcile.Result{RequeueAfter: d.After}, r.act(ctx, key, before, d)
}

// situation is what is decided about: serving.SecretSituation or serving.PodKeySituation.
type situation interface{ Decide() serving.Decision }

// gather completes what is known of the key.
func (r *reconciler) gather(ctx context.Context, key pods.NamespacedKey, known serving.Common) (situation, error) {
	list, err := r.services(ctx, key)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		known.Services = append(known.Services, &list.Items[i])
	}
	slices.SortFunc(known.Services, api.OlderFirst)
	if key.Key == pods.PodKey {
		return r.gatherPodKeys(ctx, known)
	}
	secret, ok := key.Key.Secret()
	if !ok {
		return serving.SecretSituation{Common: known}, nil
	}
	known.Pods = slices.Concat(r.cluster.Pods.Mounting(key), r.cluster.Pods.Mirrors(key.Namespace))
	known.Silences = r.ledger.silent(known.Pods)
	return serving.SecretSituation{Common: known, Secret: secret, PodKeys: r.ledger.seen(podKeysOf(key.Namespace))}, nil
}

func (r *reconciler) gatherPodKeys(ctx context.Context, known serving.Common) (situation, error) {
	kept := keptSecrets(known.Services)
	shared, err := r.shared(ctx, known.Namespace, kept)
	if err != nil {
		return nil, err
	}
	known.Pods = r.podKeyPods(known.Namespace, kept)
	known.Silences = r.ledger.silent(known.Pods)
	return serving.PodKeySituation{Common: known, Trust: r.partners.Trust.Get(ctx), Shared: shared}, nil
}

// services returns those of the key.
func (r *reconciler) services(ctx context.Context, key pods.NamespacedKey) (list corev1.ServiceList, err error) {
	err = r.cluster.Services.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{byPart: textOf(key.Key)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return list, fmt.Errorf("list Services of Secret %s from the cache: %w", nameOf(key), err)
	}
	return list, nil
}

// keptSecrets returns the Secrets that Services keep from before their pods made their keys.
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

// podKeyPods returns the pods with keys of their own, and those with one of the kept Secrets.
func (r *reconciler) podKeyPods(namespace string, kept []string) []*pods.Facts {
	found := r.cluster.Pods.Mounting(podKeysOf(namespace))
	known := map[types.UID]bool{}
	for _, pod := range found {
		known[pod.UID] = true
	}
	for _, secret := range kept {
		for _, pod := range r.cluster.Pods.Mounting(pods.NamespacedKey{Namespace: namespace, Key: pods.SecretKey(secret)}) {
			if !known[pod.UID] {
				known[pod.UID], found = true, append(found, pod)
			}
		}
	}
	return found
}

// shared returns those of the Secrets in which a Service has a part.
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

func (r *reconciler) act(ctx context.Context, key pods.NamespacedKey, before followed, d serving.Decision) error {
	err := r.write(ctx, d.Conditions)
	if d.Forget {
		r.ledger.forget(key)
	} else {
		r.ledger.put(key, followed{memory: d.Memory, states: d.States, notAfter: d.NotAfter, stale: d.Stale, seen: d.Seen})
	}
	if key.Key == pods.PodKey && !before.seen.Equal(d.Seen) {
		r.tellSecrets(key.Namespace, slices.Concat(before.seen.Services(), d.Seen.Services()))
	}
	if secret, ok := key.Key.Secret(); ok && r.partners.Rotated != nil {
		is, _ := d.Memory.Rotation()
		if was, _ := before.memory.Rotation(); was.Leaf != is.Leaf && len(r.cluster.Pods.Mounting(key)) > 0 {
			r.partners.Rotated.Enqueue(types.NamespacedName{Namespace: key.Namespace, Name: secret})
		}
	}
	for _, v := range d.Dial {
		r.partners.Dial(v)
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
		r.partners.Restarts.EnqueueNamespace(key.Namespace)
	}
	return err
}

// tellSecrets has the Secrets of the Services looked at: their conditions are about the
// pods with keys of their own, too.
func (r *reconciler) tellSecrets(namespace string, services []*corev1.Service) {
	told := map[string]bool{}
	for _, svc := range services {
		if secret, ok := state.PartIn(svc); ok && !told[secret] {
			told[secret] = true
			r.ledger.answered.Enqueue(types.NamespacedName{Namespace: namespace, Name: secret})
		}
	}
}
