package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// reconciler finds the missed pods of a namespace and reports them.
type reconciler struct {
	cluster *cluster.Cluster
	cfg     Config

	conventional *conventional
	state        *state
	clients      *clients
	events       eventWriter

	changed func(namespace string, asking []*corev1.Service, all func() []*pods.Facts)
}

// Reconcile decides about one namespace.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	namespace := req.Name
	others := elsewhere{r.cluster.Elsewhere, map[types.NamespacedName]*corev1.Service{}}
	s, err := r.gather(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	s.Place.Elsewhere = others.service(ctx, namespace, r.clients)
	// Opted in or not: conditions stay when the label is removed.
	r.changed(namespace, s.Place.Services, func() []*pods.Facts { return r.cluster.Pods.In(namespace) })
	d := uninjected.Decide(s)
	r.clients.keep(namespace, others.known)
	r.act(ctx, namespace, s, d)
	return reconcile.Result{RequeueAfter: d.After}, nil
}

func (r *reconciler) gather(ctx context.Context, namespace string) (uninjected.Situation, error) {
	s := uninjected.Situation{
		Now: r.cluster.Now(), Patience: r.cfg.Patience, MaxEvents: r.cfg.MaxEvents,
		GroupStates: r.state.groupStates(namespace),
	}
	var err error
	if s.Place.OptedIn, s.Place.Excluded, err = r.cluster.OptIn(ctx, namespace); err != nil {
		return s, err
	}
	s.Place.Conventional, s.Place.Annotations = r.conventional.in(namespace), r.cluster.Connect(ctx, namespace)
	var services corev1.ServiceList
	if err := r.cluster.Services.List(ctx, &services, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("list Services of namespace %s from the cache: %w", namespace, err)
	}
	for i := range services.Items {
		if api.Asks(&services.Items[i]) {
			s.Place.Services = append(s.Place.Services, &services.Items[i])
		}
	}
	slices.SortFunc(s.Place.Services, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) }) // as the webhook's decision does, for each template
	if s.Place.OptedIn {
		s.Pods = r.cluster.Pods.In(namespace)
	}
	return s, nil
}

func (r *reconciler) act(ctx context.Context, namespace string, s uninjected.Situation, d uninjected.Decision) {
	if d.Forget {
		r.state.forget(namespace)
		return
	}
	r.state.put(namespace, d.Pods, d.GroupStates)
	if slices.ContainsFunc(d.Notify, func(g uninjected.Group) bool { return g.Noted == "" }) {
		log.FromContext(ctx).Info("pods are not as they would be if they were created now", "pods", d.Pods, "workloads", d.Workloads)
	}
	for _, g := range d.Notify {
		r.events.one(namespace, g, s.Place.Services)
	}
	if len(d.Rest) > 0 {
		r.events.more(namespace, d.Rest, s.Place.Services)
	}
}
