package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/correct"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// reconciler corrects the attempts of a namespace.
type reconciler struct {
	cluster    *cluster.Cluster
	cfg        Config
	partners   Partners
	writer     client.Writer
	conditions *cluster.Conditions // Flags
	turns      *deletions
	events     eventWriter
	ledger     *ledger
	told       *told
}

// Reconcile looks at one namespace.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := correct.Decide(s)
	after, err := r.act(ctx, req.Name, d)
	return reconcile.Result{RequeueAfter: after}, err
}

func (r *reconciler) gather(ctx context.Context, namespace string) (correct.Situation, error) {
	s := correct.Situation{Now: r.cluster.Now(), Enabled: r.cfg.Enabled, Memory: r.ledger.memory(namespace), Readings: r.ledger.readings(namespace)}
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
		written := r.conditions.AsWritten(svc)
		if svc.DeletionTimestamp == nil && (matters(svc) || matters(written)) {
			s.Services = append(s.Services, correct.Service{Service: written, Seen: state.FlagsOf(svc)})
		}
	}
	if !s.NotOptedIn {
		s.Pods = slices.DeleteFunc(r.cluster.Pods.In(namespace), func(pod *pods.Facts) bool { return !concerns(pod) })
	}
	s.Answers = r.partners.Answers.of(namespace, s.Pods)
	return s, nil
}

// act writes, tells and deletes, in this order, and returns when to look again; 0 for
// never. What fails does not hold up the rest.
func (r *reconciler) act(ctx context.Context, namespace string, d correct.Decision) (after time.Duration, err error) {
	var errs []error
	for _, change := range d.Changes {
		wrote, err := r.conditions.Set(ctx, change.Service, change.Want)
		errs = append(errs, err)
		if wrote {
			r.tell(ctx, namespace, change.Findings)
		}
	}
	r.ledger.put(namespace, d.Withheld, d.Memory)
	r.ledger.keep(namespace, d.Readings)
	r.tell(ctx, namespace, d.Told)
	after = d.After
	if r.partners.Dial != nil {
		for _, v := range d.Dial {
			r.partners.Dial(v)
		}
	}
	for _, pod := range d.Delete {
		if wait := r.turns.take(namespace, r.cluster.Now()); wait > 0 {
			after = wait
			break
		}
		again, err := r.delete(ctx, pod)
		errs = append(errs, err)
		if again && (after == 0 || after > soon) {
			after = soon
		}
	}
	if len(d.Delete) == 0 {
		r.turns.leave(namespace)
	}
	return after, errors.Join(errs...)
}

// soon is when pods are looked at again that could not be deleted at once.
const soon = time.Second

// tell tells what was found.
func (r *reconciler) tell(ctx context.Context, namespace string, findings []correct.Finding) {
	for _, f := range findings {
		r.ledger.count(f.Verdict)
		if !r.told.take(namespace, r.cluster.Now()) {
			continue
		}
		log.FromContext(ctx).Info("judged unrequested flags", "verdict", f.Verdict, "attempt", f.Attempt, "kind", f.Workload.Kind, "name", f.Workload.Name,
			"pod", f.Pod, "container", f.Container, "exitCode", f.ExitCode, "evidence", f.Evidence)
		r.events.found(namespace, f)
	}
}

// delete deletes exactly this pod, as it was judged. It reports whether it has changed
// meanwhile, so that it is to be judged again.
func (r *reconciler) delete(ctx context.Context, pod *pods.Facts) (again bool, err error) {
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = r.writer.Delete(ctx, target, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
	switch {
	case err == nil:
		r.ledger.deleted(resultDeleted)
		log.FromContext(ctx).Info("deleted a pod that fails because of unrequested flags", "pod", pod.Name)
		return false, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		r.ledger.deleted(resultChanged)
		return true, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		r.ledger.deleted(resultForbidden)
	default:
		r.ledger.deleted(resultError)
	}
	return false, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
}
