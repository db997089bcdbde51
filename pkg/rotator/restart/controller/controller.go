package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
)

// reconciler restarts the workloads of a namespace that have stale pods and request it. It
// processes one namespace at a time, so that the number of rollouts does not change during a
// decision.
type reconciler struct {
	cluster      *cluster.Cluster
	cfg          Config
	consumers    *servingcontroller.State
	staleChanged *cluster.Trigger
	live         client.Client // without a cache: a workload is read before it may be restarted
	events       eventWriter
	state        *State
}

// Reconcile decides about the restarts of one namespace.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	namespace := req.Name
	r.state.once.Do(r.takeOver)
	s := r.gather(namespace)
	d := restart.Decide(s)
	for len(d.Needs) > 0 {
		for _, need := range d.Needs {
			if err := r.read(ctx, namespace, &s, need); err != nil {
				return reconcile.Result{}, err
			}
		}
		d = restart.Decide(s)
	}
	if err := r.act(ctx, namespace, s, d); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.After}, nil
}

// takeOver finds workloads whose rollout another replica may have started: some of their pods are
// not ready.
func (r *reconciler) takeOver() {
	for _, f := range r.cluster.Pods.List() {
		if f.Ready {
			continue
		}
		if t := f.Template.Value(); len(f.Keys()) > 0 && t.OnRotate == api.OnRotateRestart && t.Workload.Restartable() {
			r.state.addUnconfirmed(f.Namespace, t.Workload, r.cluster.Now())
			r.staleChanged.EnqueueNamespace(f.Namespace)
		}
	}
}

// gather collects the input that needs no request to the API server.
func (r *reconciler) gather(namespace string) restart.Situation {
	s := r.state.situation(namespace, r.cfg.limits(), r.cluster.Now())
	s.Stale = r.consumers.Stale(namespace)
	for _, w := range s.Stale {
		if f := r.cluster.Pods.Get(types.NamespacedName{Namespace: namespace, Name: w.Pod}); f != nil {
			s.Labels[w.Pod] = f.Template.Value().LabelSet()
		}
	}
	return s
}

// read reads an object, or the budgets, that the decision needs.
func (r *reconciler) read(ctx context.Context, namespace string, s *restart.Situation, need restart.Need) error {
	switch {
	case !need.Workload.Bare():
		st, err := r.readWorkload(ctx, namespace, need.Workload)
		s.Workloads[need.Workload] = st
		return err
	case need.Service != "":
		var svc corev1.Service
		err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: need.Service}, &svc)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Service %s: %w", need.Service, err)
		}
		s.Services[need.Service] = restart.ServiceStatusOf(&svc) // empty if it does not exist
		return nil
	}
	var err error
	s.Budgets, err = r.readBudgets(ctx, namespace)
	if apierrors.IsForbidden(err) {
		s.BudgetProblem = err.Error()
	} else if err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	return nil
}

// errEnough ends a list.
var errEnough = errors.New("enough was read")

// readBudgets lists the budgets page by page, and keeps little of each. It ends at one after which the
// others do not matter: nothing of the namespace is restarted.
func (r *reconciler) readBudgets(ctx context.Context, namespace string) ([]restart.Budget, error) {
	budgets := []restart.Budget{}
	err := facts.EachOf(ctx, r.live, &policyv1.PodDisruptionBudgetList{}, func(object runtime.Object) error {
		b := restart.BudgetOf(object.(*policyv1.PodDisruptionBudget))
		if budgets = append(budgets, b); b.TooLarge() || len(budgets) > restart.MaxBudgets {
			return errEnough
		}
		return nil
	}, client.InNamespace(namespace))
	if errors.Is(err, errEnough) {
		err = nil
	}
	return budgets, err
}

// readWorkload reads one workload. A workload that does not exist, or that it may not read, is not
// an error.
func (r *reconciler) readWorkload(ctx context.Context, namespace string, w pods.Workload) (restart.WorkloadStatus, error) {
	obj := newWorkload(w, namespace)
	err := r.live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	switch {
	case apierrors.IsNotFound(err):
		return restart.WorkloadStatus{Gone: true}, nil
	case apierrors.IsForbidden(err):
		return restart.WorkloadStatus{Problem: err.Error()}, nil
	case err != nil:
		return restart.WorkloadStatus{}, fmt.Errorf("read %s: %w", w, err)
	}
	st, ok := restart.WorkloadStatusOf(obj)
	if !ok {
		return st, fmt.Errorf("read %s: restarting a %T is not supported", w, obj)
	}
	return st, nil
}

func newWorkload(w pods.Workload, namespace string) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: w.Name}
	switch w.Kind {
	case "StatefulSet":
		return &appsv1.StatefulSet{ObjectMeta: meta}
	case "DaemonSet":
		return &appsv1.DaemonSet{ObjectMeta: meta}
	}
	return &appsv1.Deployment{ObjectMeta: meta}
}

// act restarts the workload of the decision, and then reports.
func (r *reconciler) act(ctx context.Context, namespace string, s restart.Situation, d restart.Decision) error {
	logger := log.FromContext(ctx)
	var failed error
	if d.Start != nil {
		failed = r.restart(ctx, namespace, *d.Start)
	}
	done := failed == nil
	switch {
	case d.Start == nil, !done && !isRefusal(failed):
	case done:
		w := d.Start.Stale
		logger.Info("restarted a workload whose pods serve an old certificate", "kind", w.Workload.Kind, "name", w.Workload.Name,
			"secret", w.Key.String(), "pods", w.Pods, "since", w.Since)
		r.events.restarted(namespace, *d.Start)
	case apierrors.IsConflict(failed), apierrors.IsNotFound(failed):
		failed = nil // it has changed since it was read: d.After is when to decide again
	default:
		w := d.Start.Stale
		logger.Error(failed, "cannot restart a workload whose pods serve an old certificate", "kind", w.Workload.Kind, "name", w.Workload.Name)
		r.state.refuse(namespace, w, failed.Error(), s.Now)
		failed = nil
	}
	r.state.put(namespace, d, done)
	if failed != nil { // it may have been restarted anyway
		r.state.addUnconfirmed(namespace, d.Start.Stale.Workload, r.cluster.Now())
	}
	for _, h := range d.Notify {
		logger.Info("a workload whose pods serve an old certificate is not restarted", "kind", h.Stale.Workload.Kind, "name", h.Stale.Workload.Name,
			"reason", h.Hold, "message", h.Message, "namespacesRollingOut", r.state.places())
		r.events.held(namespace, h)
	}
	for _, stuck := range d.Stuck {
		logger.Info("the rollout of a restarted workload is not progressing", "kind", stuck.Workload.Kind, "name", stuck.Workload.Name, "progress", stuck.Progress)
		r.events.stuck(namespace, stuck)
	}
	return failed
}

// restart does what kubectl rollout restart does. It fails if the workload has changed since it was
// read.
func (r *reconciler) restart(ctx context.Context, namespace string, start restart.Start) error {
	obj := newWorkload(start.Stale.Workload, namespace)
	if err := r.live.Patch(ctx, obj, client.RawPatch(types.StrategicMergePatchType, start.Patch), client.FieldOwner(cluster.Name)); err != nil {
		return fmt.Errorf("restart %s: %w", start.Stale.Workload, err)
	}
	return nil
}

// isRefusal reports whether a retry would fail in the same way.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
