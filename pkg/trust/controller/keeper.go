package controller

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// retryProbe is how soon a probe is repeated that the API server did not answer.
const retryProbe = time.Second

// keeper keeps the bundle in the targets of one kind: it waits until they can be
// watched, and then runs a cache and a controller of their own, so that no kind
// waits for another. It goes on probing, as permissions can be granted and revoked.
type keeper struct {
	kind   target.Kind
	mgr    manager.Manager
	cfg    Config
	kinds  *kinds
	prober prober
	source cache.Cache
	events eventWriter
	// reconciler returns the reconciler of the kind as it is served, which reads from
	// the given cache.
	reconciler func(target.Kind, client.Reader) *reconciler
}

// Start runs until ctx ends; a manager calls it on the leader.
func (k *keeper) Start(ctx context.Context) error {
	served, ok := k.await(ctx)
	if !ok {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	targets, err := newCache(ctx, k.mgr, served.Reads())
	if err != nil {
		return fmt.Errorf("%s: %w", k.kind.Name, err)
	}
	c, err := newController(k.mgr, k.cfg, "trust-"+k.kind.Name, k.cfg.Workers, k.reconciler(served, targets),
		append(served.Watches(targets), k.onSource(served, targets)))
	if err != nil {
		return fmt.Errorf("%s: %w", k.kind.Name, err)
	}
	started := func(run func(context.Context) error) func(context.Context) error { // a read from a cache that was not started fails
		return func(ctx context.Context) error {
			if !targets.WaitForCacheSync(ctx) {
				return nil
			}
			return run(ctx)
		}
	}
	observe := func(ctx context.Context) error { return k.observe(ctx, served, targets) }
	var group errgroup.Group
	for _, run := range []func(context.Context) error{targets.Start, started(c.Start), started(observe)} {
		group.Go(func() error {
			defer stop() // all or none
			return run(ctx)
		})
	}
	return group.Wait()
}

// await returns the kind in the version that the API server serves, as soon as it
// can be watched; false if ctx ended before.
func (k *keeper) await(ctx context.Context) (target.Kind, bool) {
	for {
		served, state, message := findServed(ctx, k.kind, k.prober.probe)
		if state == trust.KindWatched {
			return served, true
		}
		if ctx.Err() == nil {
			k.report(ctx, state, message)
		}
		wait := k.cfg.ProbeInterval
		if state == trust.KindStarting {
			wait = min(wait, retryProbe)
		}
		if !sleep(ctx, wait) {
			return target.Kind{}, false
		}
	}
}

// observe records that the kind is watched once its cache is filled, and from then
// on whenever that changes. An API server that gives no answer changes nothing.
func (k *keeper) observe(ctx context.Context, served target.Kind, targets client.Reader) error {
	_, err := served.List(ctx, targets) // waits for the cache
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("list targets of kind %s from the cache: %w", served.Name, err)
	}
	if err == nil {
		k.kinds.watched(served, targets)
	}
	for sleep(ctx, k.cfg.ProbeInterval) {
		switch state, message := judgeProbe(k.prober.probe(ctx, served)); {
		case ctx.Err() != nil, state == trust.KindStarting: // no answer
		case state != trust.KindWatched:
			k.report(ctx, state, message)
		case k.kinds.watched(served, targets):
			log.FromContext(ctx).Info("watching targets again", "kind", k.kind.Name)
		}
	}
	return nil
}

// report records why the kind's targets cannot be watched, and logs it once. Missing
// permissions are sent as an event too.
func (k *keeper) report(ctx context.Context, state trust.KindState, message string) {
	if !k.kinds.set(k.kind.Name, state, message) {
		return
	}
	logger := log.FromContext(ctx).WithValues("kind", k.kind.Name, "message", message)
	switch state {
	case trust.KindAbsent:
		logger.Info("kind of target is not served by the API server")
	case trust.KindRefused:
		logger.Info("cannot watch targets: grant the permission, or leave the kind out of --targets")
		k.events.kindRefused(k.cfg.Namespace, k.kind.Name, message)
	default:
		logger.Info("API server did not answer whether targets can be watched")
	}
}

// onSource looks at all targets when the bundle in the source has changed.
func (k *keeper) onSource(served target.Kind, targets client.Reader) source.Source {
	all := func(ctx context.Context, _ *corev1.ConfigMap) []reconcile.Request {
		all, err := served.List(ctx, targets)
		if err != nil { // only if ctx has ended: the cache is in memory
			return nil
		}
		requests := make([]reconcile.Request, 0, len(all))
		for _, t := range all {
			requests = append(requests, reconcile.Request{NamespacedName: t.Key})
		}
		return requests
	}
	return source.Kind(k.source, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(all), bundleChanged())
}

// sleep waits for d, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
