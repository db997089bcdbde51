package rotator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
)

// restarter restarts the workloads of a namespace whose pods serve an old
// certificate and ask for it. It works on one namespace at a time, so that what
// it counts does not change while it decides.
type restarter struct {
	cfg    Config
	pods   *podCache
	stale  func(namespace string) []staleWorkload
	live   client.Client // has no cache: workloads are read when one is about to be restarted
	events eventWriter
	state  *restartState
	look   func(namespace string)
}

// Reconcile looks at the restarts of one namespace.
func (r *restarter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	namespace := req.Name
	r.state.once.Do(r.takeOver)
	s := r.gather(namespace)
	d := decideRestarts(s)
	for !d.need.none() {
		if err := r.read(ctx, namespace, &s, d.need); err != nil {
			return reconcile.Result{}, err
		}
		d = decideRestarts(s)
	}
	if err := r.act(ctx, namespace, s, d); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.after}, nil
}

// takeOver finds what may be rolling out that another replica started: the pods
// that a rollout waits for are not ready.
func (r *restarter) takeOver() {
	for _, object := range r.pods.GetStore().List() {
		f, ok := object.(*PodFacts)
		if !ok || f.Ready {
			continue
		}
		if t := f.Template.Value(); t.Mounts != "" && t.OnRotate == api.OnRotateRestart && t.Workload.Restartable() {
			r.state.doubt(f.Namespace, t.Workload)
			r.look(f.Namespace)
		}
	}
}

// gather collects what is known without asking the API server.
func (r *restarter) gather(namespace string) restartSituation {
	s := r.state.situation(namespace, r.cfg.Restarts, r.cfg.Now())
	s.limits = r.cfg.restartLimits()
	s.stale = r.stale(namespace)
	s.labels = map[string]map[string]string{}
	for _, w := range s.stale {
		object, there, err := r.pods.GetStore().GetByKey(namespace + "/" + w.Pod)
		if f, ok := object.(*PodFacts); ok && there && err == nil {
			s.labels[w.Pod] = decodeLabels(f.Template.Value().Labels)
		}
	}
	return s
}

// read answers what the decision has to know.
func (r *restarter) read(ctx context.Context, namespace string, s *restartSituation, need restartNeed) error {
	switch {
	case need.workload != nil:
		st, err := r.readWorkload(ctx, namespace, *need.workload)
		s.standings[*need.workload] = st
		return err
	case need.service != "":
		var svc corev1.Service
		err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: need.service}, &svc)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Service %s: %w", need.service, err)
		}
		leaf, _ := api.LeafOf(&svc)
		ready := api.Condition(&svc, api.ConditionReady)
		s.services[need.service] = serviceStanding{err == nil && ready != nil && ready.Status == metav1.ConditionTrue, leaf}
		return nil
	}
	var budgets policyv1.PodDisruptionBudgetList
	err := r.live.List(ctx, &budgets, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) {
		s.budgetProblem = err.Error()
	} else if err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	s.budgets = append([]policyv1.PodDisruptionBudget{}, budgets.Items...)
	return nil
}

// readWorkload reads one workload. That it is gone or may not be read is an
// answer too.
func (r *restarter) readWorkload(ctx context.Context, namespace string, w Workload) (standing, error) {
	obj := newWorkload(w, namespace)
	err := r.live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	switch {
	case apierrors.IsNotFound(err):
		return standing{gone: true}, nil
	case apierrors.IsForbidden(err):
		return standing{problem: err.Error()}, nil
	case err != nil:
		return standing{}, fmt.Errorf("read %s %s: %w", w.Kind, w.Name, err)
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return deploymentStanding(o), nil
	case *appsv1.StatefulSet:
		return statefulSetStanding(o), nil
	case *appsv1.DaemonSet:
		return daemonSetStanding(o), nil
	}
	return standing{}, fmt.Errorf("read %s %s: no kind that can be restarted", w.Kind, w.Name)
}

func newWorkload(w Workload, namespace string) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: w.Name}
	switch w.Kind {
	case "StatefulSet":
		return &appsv1.StatefulSet{ObjectMeta: meta}
	case "DaemonSet":
		return &appsv1.DaemonSet{ObjectMeta: meta}
	}
	return &appsv1.Deployment{ObjectMeta: meta}
}

// act restarts what is to be restarted, and then tells.
func (r *restarter) act(ctx context.Context, namespace string, s restartSituation, d restartDecision) error {
	logger := log.FromContext(ctx)
	var failed error
	if w := d.start; w != nil {
		failed = r.restart(ctx, namespace, *w, s)
		if failed != nil {
			delete(d.rollouts, w.Workload)
		}
		switch {
		case apierrors.IsConflict(failed), apierrors.IsNotFound(failed):
			failed = nil // it has changed since it was read: d.after says when to look again
		case isRefusal(failed):
			logger.Error(failed, "cannot restart a workload whose pods serve an old certificate", "kind", w.Workload.Kind, "name", w.Workload.Name)
			r.state.refuse(namespace, *w, refusal{s.now, failed.Error()})
			failed = nil
		}
	}
	r.state.put(namespace, d)
	for _, h := range d.tell {
		logger.Info("a workload whose pods serve an old certificate is not restarted", "kind", h.stale.Workload.Kind, "name", h.stale.Workload.Name,
			"reason", h.hold, "why", h.why)
		r.events.restartHeld(namespace, h, s.standings[h.stale.Workload].uid)
	}
	for _, w := range d.stuck {
		st := s.standings[w]
		logger.Info("the rollout of a restarted workload does not get on", "kind", w.Kind, "name", w.Name, "progress", st.progress.counts.String())
		r.events.restartStuck(namespace, w, st)
	}
	return failed
}

// restart does what kubectl rollout restart does, if the workload is still as it
// was read. The field's manager has a name of its own: Flux takes back what a
// manager has written whose name begins with "kubectl".
func (r *restarter) restart(ctx context.Context, namespace string, w staleWorkload, s restartSituation) error {
	st, at := s.standings[w.Workload], s.now
	if after := w.Since.Add(time.Second); at.Before(after) { // by another clock
		at = after
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": st.uid, "resourceVersion": st.resourceVersion},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{AnnotationRestartedAt: at.UTC().Format(time.RFC3339)},
		}}},
	})
	if err != nil {
		return err
	}
	err = r.live.Patch(ctx, newWorkload(w.Workload, namespace), client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(name))
	if err != nil {
		return fmt.Errorf("restart %s %s: %w", w.Workload.Kind, w.Workload.Name, err)
	}
	r.state.started(namespace, s, w.Workload)
	log.FromContext(ctx).Info("restarted a workload whose pods serve an old certificate", "kind", w.Workload.Kind, "name", w.Workload.Name,
		"secret", w.Secret, "pods", w.Pods, "since", w.Since)
	r.events.restarted(namespace, w, st.uid)
	return nil
}

// isRefusal reports whether the API server will say the same again.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
