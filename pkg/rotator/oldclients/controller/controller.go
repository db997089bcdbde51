// Package controller counts the pods that may hold an older CA bundle, on the leader, and has those
// restarted that ask for it. What it does is decided in package oldclients.
package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/oldclients"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// EventOldClients is the reason of an event on ConfigMap api.CAStatusName: pods may hold a bundle
// without the root of a generation.
const EventOldClients = "ClientsMayHoldOldBundle"

// delay is how long changes of pods are gathered: each look is at all pods.
const delay = 5 * time.Second

// Partners are those that the controller works with.
type Partners struct {
	// Published is a cache of ConfigMap api.CAStatusName.
	Published cache.Cache
	// Restarts enqueues namespaces in which other workloads than before ask for a restart, and
	// Report whatever is reported.
	Restarts, Report *cluster.Trigger
}

// Ledger is what was found last.
type Ledger struct {
	mu    sync.Mutex
	known bool
	last  oldclients.Decision
}

// Clients returns who was counted, false if nobody was counted yet.
func (l *Ledger) Clients() (api.OldClients, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Clients, l.known
}

// Stale returns the workloads of a namespace that ask for a restart.
func (l *Ledger) Stale(namespace string) []serving.StaleWorkload {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Stale[namespace]
}

// put keeps a decision and returns the one before it.
func (l *Ledger) put(d oldclients.Decision) (before oldclients.Decision, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known = l.last, l.known
	l.last, l.known = d, true
	return before, known
}

type reconciler struct {
	cluster  *cluster.Cluster
	partners Partners
	recorder events.EventRecorder
	ledger   *Ledger
}

// Setup adds the controller, and returns its ledger.
func Setup(c *cluster.Cluster, p Partners) (*Ledger, error) {
	r := &reconciler{cluster: c, partners: p, recorder: c.Recorder(), ledger: &Ledger{}}
	return r.ledger, c.AddController("old-clients", controller.Options{MaxConcurrentReconciles: 1, Reconciler: r},
		c.Pods.Source("pods with the CA bundle", onPod),
		source.Kind(p.Published, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *corev1.ConfigMap) []reconcile.Request {
			return []reconcile.Request{{}}
		})))
}

// onPod enqueues if a pod with the bundle came, went or was started.
func onPod(_ context.Context, q facts.Queue, before, after *pods.Facts) {
	roots := func(f *pods.Facts) bool { return f != nil && f.Template.Value().Roots }
	if !roots(before) && !roots(after) {
		return
	}
	if before == nil || after == nil || before.Template != after.Template || !before.SameStart(after) || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
		q.AddAfter(reconcile.Request{}, delay)
	}
}

// Reconcile looks at all pods.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var cm corev1.ConfigMap
	err := r.partners.Published.Get(ctx, types.NamespacedName{Namespace: r.cluster.Namespace, Name: api.CAStatusName}, &cm)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil // what was found stays
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read ConfigMap %s from the cache: %w", api.CAStatusName, err)
	}
	d := oldclients.Decide(oldclients.Situation{Now: r.cluster.Now(), CA: api.ParseCAStatus(cm.Data), Pods: r.cluster.Pods.All()})
	r.act(ctx, &cm, d)
	return reconcile.Result{RequeueAfter: d.After}, nil
}

// act keeps what was found, and tells those whom it concerns.
func (r *reconciler) act(ctx context.Context, cm *corev1.ConfigMap, d oldclients.Decision) {
	before, known := r.ledger.put(d)
	for namespace, stale := range d.Stale {
		if !slices.EqualFunc(stale, before.Stale[namespace], serving.StaleWorkload.Equal) {
			r.partners.Restarts.EnqueueNamespace(namespace)
		}
	}
	for namespace := range before.Stale {
		if len(d.Stale[namespace]) == 0 {
			r.partners.Restarts.EnqueueNamespace(namespace)
		}
	}
	same := func(a, b api.OldClientsOf) bool {
		return a.Generation == b.Generation && a.Root == b.Root && a.Pods == b.Pods && slices.Equal(a.First, b.First)
	}
	if !known || !slices.EqualFunc(d.Clients, before.Clients, same) {
		r.partners.Report.EnqueueNamespace("")
	}
	for _, of := range d.Clients {
		if _, counted := before.Clients.Of(of.Generation, of.Root); counted || of.Pods == 0 {
			continue
		}
		log.FromContext(ctx).Info("pods may hold a CA bundle without the root of a generation", "generation", of.Generation, "pods", of.Pods, "workloads", of.Workloads, "first", of.First)
		r.recorder.Eventf(cm, nil, corev1.EventTypeWarning, EventOldClients, "Count",
			"%d pods of %d workloads have the CA bundle and were started before %s, so that programs which read it once may not trust generation %d: %s. Restart them, or annotate them %s",
			of.Pods, of.Workloads, of.Since.UTC().Format(time.RFC3339), of.Generation, pods.Shorten(of.String()), api.AnnotationOnRotate)
	}
}
