package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// targets are those of one kind, in which a keeper keeps the bundle.
type targets struct {
	kind   target.Kind
	cfg    Config
	kinds  *kinds
	prober prober
	source cache.Cache
	events eventWriter
	// reconciler returns the reconciler of the kind as it is served, which reads from
	// the given cache.
	reconciler func(target.Kind, client.Reader) *reconciler
	refound    bool // it was watched before
}

// find is for keeper.find. The kind is kept in the newest version that is served.
func (t *targets) find(ctx context.Context) (kept, trust.KindState, string) {
	served, state, message := findServed(ctx, t.kind, func(ctx context.Context, k target.Kind) error { return t.prober.probe(ctx, k.Reads()) })
	return kept{
		reads: served.Reads(),
		watches: func(c cache.Cache) []source.Source {
			return append(served.Watches(c), t.onSource(served, c))
		},
		reconciler: func(c client.Reader) reconcile.Reconciler { return t.reconciler(served, c) },
		filled: func(ctx context.Context, c client.Reader) {
			t.kinds.watched(served, c)
			if t.refound {
				log.FromContext(ctx).Info("watching targets again", "kind", t.kind.Name)
			}
			t.refound = true
		},
	}, state, message
}

// report records why the kind's targets cannot be watched, and logs it once. Missing
// permissions are sent as an event too.
func (t *targets) report(ctx context.Context, state trust.KindState, message string) {
	if !t.kinds.set(t.kind.Name, state, message) {
		return
	}
	logger := log.FromContext(ctx).WithValues("kind", t.kind.Name, "message", message)
	switch state {
	case trust.KindAbsent:
		logger.Info("kind of target is not served by the API server")
	case trust.KindRefused:
		logger.Info("cannot watch targets: grant the permission or, if servingcert does not need it, leave the kind out of --targets")
		t.events.kindRefused(t.cfg.Namespace, t.kind.Name, message)
	default:
		logger.Info("API server did not answer whether targets can be watched")
	}
}

// onSource looks at all targets when the bundle in the source has changed.
func (t *targets) onSource(served target.Kind, objects client.Reader) source.Source {
	all := func(ctx context.Context, _ *corev1.ConfigMap) []reconcile.Request {
		all, err := served.List(ctx, objects)
		if err != nil { // only if ctx has ended: the cache is in memory
			return nil
		}
		requests := make([]reconcile.Request, 0, len(all))
		for _, t := range all {
			requests = append(requests, reconcile.Request{NamespacedName: t.Key})
		}
		return requests
	}
	return source.Kind(t.source, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(all), bundleChanged())
}
