package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// statusReconciler keeps the trust status, and reports a source that is invalid.
type statusReconciler struct {
	kinds    *kinds
	now      func() time.Time
	key      types.NamespacedName // of the trust status
	source   sourceReader
	status   client.Reader // the cache of the trust status
	writer   client.Writer
	state    *targetState
	events   eventWriter
	latest   atomic.Pointer[trust.Summary]
	reported string    // the problem of the source that was last reported
	started  time.Time // when it looked first
	awaited  trust.Awaited
}

// Reconcile brings the trust status up to date. There is only one to look at.
func (r *statusReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	s, source, err := r.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.act(ctx, source, trust.DecideStatus(s))
}

// gather returns the situation, and the source; nil if there is none.
func (r *statusReconciler) gather(ctx context.Context) (trust.StatusSituation, *corev1.ConfigMap, error) {
	now := r.now()
	if r.started.IsZero() {
		r.started = now
	}
	s := trust.StatusSituation{Now: now, Started: r.started, Reported: r.reported, Awaited: r.awaited}
	source, err := r.source.read(ctx)
	if err != nil {
		return s, nil, err
	}
	s.Bundle, s.NoBundle = r.source.sources.Read(source, false, now)
	for _, v := range r.kinds.all() {
		s.Kinds = append(s.Kinds, v.KindStatus)
		seen, err := r.seen(ctx, v, s, source)
		if err != nil {
			return s, nil, err
		}
		s.Targets = append(s.Targets, seen...)
	}
	var current corev1.ConfigMap
	if err := r.status.Get(ctx, r.key, &current); client.IgnoreNotFound(err) != nil {
		return s, nil, fmt.Errorf("read ConfigMap %s from the cache: %w", r.key, err)
	}
	s.Current = current.Data
	s.Withdrawn = r.state.takeWithdrawn() // last: they are given once
	return s, source, nil
}

// seen returns the targets of a kind, and what they hold if there is a bundle. It makes no file with
// a password of its own: there may be one for each target, and this is done again and again.
func (r *statusReconciler) seen(ctx context.Context, v kindView, s trust.StatusSituation, source *corev1.ConfigMap) ([]trust.SeenTarget, error) {
	if v.targets == nil || v.State == trust.KindAbsent {
		return nil, nil
	}
	targets, err := v.served.List(ctx, v.targets)
	if err != nil {
		return nil, fmt.Errorf("list targets of kind %s from the cache: %w", v.Name, err)
	}
	seen := make([]trust.SeenTarget, 0, len(targets))
	for _, t := range targets {
		id := trust.TargetID{Kind: v.Name, Key: t.Key}
		one := trust.SeenTarget{TargetID: id, Created: t.Created, Last: r.state.get(id)}
		if s.NoBundle == nil {
			bundle, err := r.source.bundleFor(v.served, t, source, s.Now)
			if err != nil {
				one.Held = trust.Differs(err.Error())
			} else {
				one.Held = v.served.Recall(t, bundle, one.Last)
			}
		}
		seen = append(seen, one)
	}
	return seen, nil
}

func (r *statusReconciler) act(ctx context.Context, source *corev1.ConfigMap, d trust.StatusDecision) (reconcile.Result, error) {
	r.awaited = d.Awaited
	if d.Wait {
		return reconcile.Result{RequeueAfter: d.After}, nil
	}
	r.latest.Store(&d.Summary)
	if d.Report {
		r.report(ctx, source, d.Summary.Status.Problem)
	}
	if d.Write != nil {
		doc := applycorev1.ConfigMap(r.key.Name, r.key.Namespace).WithData(d.Write)
		if err := r.writer.Apply(ctx, doc, client.FieldOwner(trust.FieldManager), client.ForceOwnership); err != nil {
			return reconcile.Result{}, fmt.Errorf("write the trust status: %w", err)
		}
	}
	return reconcile.Result{RequeueAfter: d.After}, nil
}

// report logs, and sends as an event, that the source is invalid, or logs that it
// is valid again.
func (r *statusReconciler) report(ctx context.Context, source *corev1.ConfigMap, problem string) {
	r.reported = problem
	if problem == "" {
		log.FromContext(ctx).Info("source of the CA bundle is valid again")
		return
	}
	if source == nil {
		source = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.key.Namespace, Name: api.CAStatusName}}
	}
	log.FromContext(ctx).Info("no CA bundle to distribute, targets keep the one they have", "problem", problem)
	r.events.sourceInvalid(source, problem)
}

// targets returns how many there were when it looked last.
func (r *statusReconciler) targets() int {
	s, _ := r.summary()
	return s.Status.Targets
}

// summary returns the latest, and false before there is one.
func (r *statusReconciler) summary() (trust.Summary, bool) {
	if s := r.latest.Load(); s != nil {
		return *s, true
	}
	return trust.Summary{}, false
}
