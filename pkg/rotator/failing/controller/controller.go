package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/failing"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// reconciler finds the failing pods of a namespace and reports them.
type reconciler struct {
	cluster    *cluster.Cluster
	conditions *cluster.Conditions // PodsHealthy
	state      *state
	events     eventWriter
}

// Reconcile decides about one namespace.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := failing.Decide(s)
	if err := r.act(ctx, req.Name, d); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.After}, nil
}

func (r *reconciler) gather(ctx context.Context, namespace string) (failing.Situation, error) {
	s := failing.Situation{Now: r.cluster.Now()}
	s.Reported, s.Rounds = r.state.of(namespace, s.Now)
	optedIn, excluded, err := r.cluster.OptIn(ctx, namespace)
	if err != nil {
		return s, err
	}
	s.NotOptedIn = !optedIn || excluded
	var list corev1.ServiceList
	if err := r.cluster.Services.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("list Services of namespace %s from the cache: %w", namespace, err)
	}
	for i := range list.Items {
		svc := &list.Items[i]
		if svc.DeletionTimestamp == nil && matters(svc) {
			s.Services = append(s.Services, svc)
		}
	}
	if !s.NotOptedIn {
		s.Pods = slices.DeleteFunc(r.cluster.Pods.In(namespace), func(pod *pods.Facts) bool { return !concerns(pod) })
	}
	return s, nil
}

// act writes the conditions, and sends events about their content. If a write fails, the decision
// is repeated.
func (r *reconciler) act(ctx context.Context, namespace string, d failing.Decision) error {
	var errs []error
	for _, change := range d.Conditions {
		_, err := r.conditions.Set(ctx, change.Service, change.Want)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.state.put(namespace, d.Failing, d.Reported)
	for _, f := range d.Notify {
		if r.state.mayReport(namespace, r.cluster.Now()) {
			log.FromContext(ctx).Info("pods fail that were injected", "reason", f.Reason, "kind", f.Workload.Kind, "name", f.Workload.Name, "pod", f.Pod, "container", f.Container)
			r.events.report(namespace, f)
		}
	}
	return nil
}
