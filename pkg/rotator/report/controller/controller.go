// Package controller keeps ConfigMap servingcert-serving-status, the report of all
// stale workloads, on the leader. What it holds is decided in package report.
package controller

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/report"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Partners are those whose knowledge is reported.
type Partners struct {
	// Stale returns the stale workloads by namespace, and Judged reports whether all
	// are known of a key.
	Stale  func() map[string][]serving.StaleWorkload
	Judged func(pods.NamespacedKey) bool
	// Held returns the workloads of a namespace that are not restarted now, and
	// whether that was decided yet.
	Held func(namespace string) (held []restart.Held, decided bool)
	// Clients returns those that may hold an older CA bundle, false if they were not counted yet.
	Clients func() (api.OldClients, bool)
	// Changed enqueues, under any key, when one of these has changed. Its delay should
	// be the Interval of the Config.
	Changed *cluster.Trigger
}

// reconciler keeps the report. There is only one.
type reconciler struct {
	cluster  *cluster.Cluster
	cfg      Config
	partners Partners
	present  client.Reader // a cache of the ConfigMap
	writer   client.Writer
	// complete: the state of every Secret was known once. From then on, this process
	// knows more than the report that it found.
	complete bool
}

// Setup adds the controller to mgr.
func Setup(mgr manager.Manager, c *cluster.Cluster, cfg Config, p Partners) error {
	present, err := c.ConfigMap(api.ServingStatusName)
	if err != nil {
		return err
	}
	r := &reconciler{cluster: c, cfg: cfg, partners: p, present: present, writer: mgr.GetClient()}
	p.Changed.EnqueueNamespace("") // for the first report
	return c.AddController("serving-status", controller.Options{
		MaxConcurrentReconciles: 1,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](cfg.Interval, time.Minute),
		Reconciler:              r,
	}, p.Changed)
}

// Reconcile brings the report up to date.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	d, err := report.Decide(s)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("report stale workloads: %w", err)
	}
	if err := r.act(ctx, d); err != nil {
		return reconcile.Result{}, err
	}
	if !r.complete {
		return reconcile.Result{RequeueAfter: r.cfg.Interval}, nil
	}
	return reconcile.Result{}, nil
}

func (r *reconciler) gather(ctx context.Context) (report.Situation, error) {
	var s report.Situation
	if !r.complete {
		unjudged, err := r.unjudged(ctx)
		if err != nil {
			return s, err
		}
		s.Unjudged, r.complete = unjudged, len(unjudged) == 0
	}
	s.Clients, s.Counted = r.partners.Clients()
	for namespace, stale := range r.partners.Stale() {
		held, decided := r.partners.Held(namespace)
		byKey := map[restart.Key]*restart.Held{}
		for i := range held {
			byKey[restart.KeyOf(held[i].Stale)] = &held[i]
		}
		for _, w := range stale {
			s.Workloads = append(s.Workloads, report.Workload{Namespace: namespace, Stale: w, Held: byKey[restart.KeyOf(w)], Undecided: !decided})
		}
	}
	var cm corev1.ConfigMap
	err := r.present.Get(ctx, types.NamespacedName{Namespace: r.cluster.Namespace, Name: api.ServingStatusName}, &cm)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return s, fmt.Errorf("read ConfigMap %s from the cache: %w", api.ServingStatusName, err)
	case err == nil:
		s.Present = map[string]string{}
		maps.Copy(s.Present, cm.Data)
	}
	return s, nil
}

// unjudged returns the keys of Services whose state this process does not know yet.
func (r *reconciler) unjudged(ctx context.Context) (map[pods.NamespacedKey]bool, error) {
	var services corev1.ServiceList
	if err := r.cluster.Services.List(ctx, &services, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Services from the cache: %w", err)
	}
	unjudged := map[pods.NamespacedKey]bool{}
	for i := range services.Items {
		secret, ok := state.PartIn(&services.Items[i])
		key := pods.NamespacedKey{Namespace: services.Items[i].Namespace, Key: pods.SecretKey(secret)}
		if api.WantsPodKeys(&services.Items[i]) {
			key.Key, ok = pods.PodKey, true
		}
		if ok && !r.partners.Judged(key) {
			unjudged[key] = true
		}
	}
	return unjudged, nil
}

func (r *reconciler) act(ctx context.Context, d report.Decision) error {
	if d.Data == nil {
		return nil
	}
	doc := applycorev1.ConfigMap(api.ServingStatusName, r.cluster.Namespace).WithData(d.Data)
	if err := r.writer.Apply(ctx, doc, client.FieldOwner(cluster.Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", api.ServingStatusName, err)
	}
	return nil
}
