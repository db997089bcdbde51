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

// Reconcile looks at one Secret. Under pods.PodKey it looks at the pods of the namespace
// that have keys of their own, and under partInNone at the Services that have a part in
// neither and still have a condition Serving.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	now := r.cluster.Now()
	before := r.ledger.open(req.NamespacedName, now)
	s := serving.Situation{Now: now, Memory: before.memory, Pace: r.cfg.pace(), Off: !r.cfg.Verify}
	if err := r.gather(ctx, req.NamespacedName, &s); err != nil {
		return reconcile.Result{}, err
	}
	d := serving.Decide(s)
	return reconcile.Result{RequeueAfter: d.After}, r.act(ctx, req.NamespacedName, before, s, d)
}

func (r *reconciler) gather(ctx context.Context, key types.NamespacedName, s *serving.Situation) error {
	var list corev1.ServiceList
	if err := r.cluster.Services.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{byPart: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Services of Secret %s from the cache: %w", key, err)
	}
	for i := range list.Items {
		s.Services = append(s.Services, r.conditions.AsWritten(&list.Items[i]))
	}
	slices.SortFunc(s.Services, api.OlderFirst)
	s.Namespace = key.Namespace
	switch key.Name {
	case partInNone:
		return nil
	case pods.PodKey:
		s.Trust = r.partners.Trust.Get(ctx)
		kept := keptSecrets(s.Services)
		s.Pods = r.podKeyPods(key.Namespace, kept)
		var err error
		if s.Shared, err = r.shared(ctx, key.Namespace, kept); err != nil {
			return err
		}
	default:
		s.Pods = r.cluster.Pods.Mounting(key.Namespace, key.Name)
		s.PodKeys = r.ledger.seen(podKeysOf(key.Namespace))
	}
	s.Secret = key.Name
	s.Silences = r.ledger.silent(s.Pods)
	return nil
}

// keptSecrets returns the Secrets that Services keep from before their pods made their keys.
func keptSecrets(services []*corev1.Service) []string {
	var kept []string
	for _, svc := range services {
		if api.WantsPodKeys(svc) {
			kept = append(kept, api.KeptSecrets(svc)...)
		}
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}

// podKeyPods returns the pods with keys of their own, and those with one of the kept Secrets.
func (r *reconciler) podKeyPods(namespace string, kept []string) []*pods.Facts {
	found := r.cluster.Pods.Mounting(namespace, pods.PodKey)
	known := map[types.UID]bool{}
	for _, pod := range found {
		known[pod.UID] = true
	}
	for _, secret := range kept {
		for _, pod := range r.cluster.Pods.Mounting(namespace, secret) {
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
		var list corev1.ServiceList
		if err := r.cluster.Services.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{byPart: secret}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Services of Secret %s/%s from the cache: %w", namespace, secret, err)
		}
		if len(list.Items) > 0 {
			shared[secret] = true
		}
	}
	return shared, nil
}

func (r *reconciler) act(ctx context.Context, key types.NamespacedName, before followed, s serving.Situation, d serving.Decision) error {
	err := r.write(ctx, d.Conditions)
	if d.Forget {
		r.ledger.forget(key)
	} else {
		r.ledger.put(key, followed{memory: d.Memory, states: d.States, notAfter: d.NotAfter, stale: d.Stale, judged: d.Judged, seen: d.Seen})
	}
	if s.Secret == pods.PodKey && !before.seen.Equal(d.Seen) {
		r.tellSecrets(key.Namespace, slices.Concat(before.seen.Services(), d.Seen.Services()))
	}
	if is, _ := d.Memory.Rotation(); r.partners.Rotated != nil && len(s.Pods) > 0 {
		if was, _ := before.memory.Rotation(); was.Leaf != is.Leaf {
			r.partners.Rotated.Enqueue(key)
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
		r.events.servesOld(s.Namespace, stale)
	}
	if !slices.EqualFunc(before.stale, d.Stale, serving.StaleWorkload.Equal) {
		r.partners.Restarts.EnqueueNamespace(key.Namespace)
		r.partners.Report.EnqueueNamespace("")
	}
	return err
}

// tellSecrets has the Secrets of the Services looked at: their conditions are about the
// pods with keys of their own, too.
func (r *reconciler) tellSecrets(namespace string, services []*corev1.Service) {
	told := map[string]bool{}
	for _, svc := range services {
		if secret, ok := api.PartIn(svc); ok && !told[secret] {
			told[secret] = true
			r.ledger.answered.Enqueue(types.NamespacedName{Namespace: namespace, Name: secret})
		}
	}
}
