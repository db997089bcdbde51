package trust

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
)

// minBackoff is how long a target that refused waits for the second attempt.
const minBackoff = 100 * time.Millisecond

// AddToScheme adds the types that Setup's manager must know.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, admissionv1.AddToScheme, apiregistrationv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// Setup adds to mgr all that keeps the bundle in its targets. The controllers
// run on the leader; their caches are their own, so that what they leave out is
// left out for nobody else.
func Setup(mgr manager.Manager, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	kept := slices.DeleteFunc(Targets(), func(t Target) bool { return !slices.Contains(cfg.Targets, t.Kind) })
	if err := setup(mgr, cfg, kept); err != nil {
		return fmt.Errorf("set up trust: %w", err)
	}
	return nil
}

func setup(mgr manager.Manager, cfg Config, kinds []Target) error {
	c, err := newCaches(mgr, cfg.Namespace, kinds)
	if err != nil {
		return err
	}
	bell := make(chan event.TypedGenericEvent[struct{}], 1)
	ring := func() {
		select {
		case bell <- event.TypedGenericEvent[struct{}]{}:
		default: // it has been rung already
		}
	}
	status := &statusReconciler{
		kinds:     kinds,
		now:       cfg.Now,
		namespace: cfg.Namespace,
		targets:   c.targets,
		source:    sourceReader{c.source, cfg.Namespace},
		status:    c.status,
		writer:    mgr.GetClient(),
		ledger:    newLedger(ring),
		events:    eventWriter{mgr.GetEventRecorder(FieldManager), mgr.GetScheme()},
	}
	metrics := newMetrics(kinds, status.summary)
	if err := cfg.Metrics.Register(metrics); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := addStatusController(mgr, cfg, c, status, bell); err != nil {
		return err
	}
	for _, kind := range kinds {
		r := &reconciler{
			target:  kind,
			now:     cfg.Now,
			targets: c.targets,
			source:  status.source,
			writer:  status.writer,
			live:    mgr.GetAPIReader(),
			ledger:  status.ledger,
			events:  status.events,
			metrics: metrics,
		}
		if err := addTargetController(mgr, cfg, c, r); err != nil {
			return fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
	return nil
}

// addTargetController reconciles the targets of one kind: each when something
// about it changed, all when the source did.
func addTargetController(mgr manager.Manager, cfg Config, c caches, r *reconciler) error {
	all := func(ctx context.Context, _ *corev1.ConfigMap) []reconcile.Request {
		places, err := r.target.finder.list(ctx, c.targets)
		if err != nil { // only if ctx has ended: the cache is in memory
			return nil
		}
		requests := make([]reconcile.Request, 0, len(places))
		for _, p := range places {
			requests = append(requests, reconcile.Request{NamespacedName: p.key})
		}
		return requests
	}
	watches := append(r.target.finder.watches(c.targets),
		source.Kind(c.source, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(all), bundleChanged()))
	return addController(mgr, cfg, "trust-"+r.target.Kind, cfg.Workers, r, watches)
}

// bundleChanged passes over the signer's other news in the source.
func bundleChanged() predicate.TypedPredicate[*corev1.ConfigMap] {
	return predicate.TypedFuncs[*corev1.ConfigMap]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.ConfigMap]) bool {
			return e.ObjectOld.Data[api.BundleKey] != e.ObjectNew.Data[api.BundleKey]
		},
	}
}

// addStatusController reconciles the trust status when a target's record, the
// source or the status itself changed, but not more often than StatusDelay.
func addStatusController(mgr manager.Manager, cfg Config, c caches, r *statusReconciler, bell <-chan event.TypedGenericEvent[struct{}]) error {
	only := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: cfg.Namespace, Name: api.TrustStatusName}}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	later := func(q queue) { q.AddAfter(only, cfg.StatusDelay) }
	onConfigMap := handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[*corev1.ConfigMap], q queue) { later(q) },
		UpdateFunc: func(_ context.Context, _ event.TypedUpdateEvent[*corev1.ConfigMap], q queue) { later(q) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[*corev1.ConfigMap], q queue) { later(q) },
	}
	onBell := handler.TypedFuncs[struct{}, reconcile.Request]{
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[struct{}], q queue) { later(q) },
	}
	atStart := source.Func(func(_ context.Context, q queue) error {
		later(q)
		return nil
	})
	return addController(mgr, cfg, "trust-status", 1, r, []source.Source{
		atStart,
		source.TypedChannel(bell, onBell),
		source.Kind(c.source, &corev1.ConfigMap{}, onConfigMap),
		source.Kind(c.status, &corev1.ConfigMap{}, onConfigMap),
	})
}

func addController(mgr manager.Manager, cfg Config, name string, workers int, r reconcile.Reconciler, watches []source.Source) error {
	anyName := true // controller-runtime wants names to be unique in a process, tests run several managers
	c, err := controller.New(name, mgr, controller.Options{
		SkipNameValidation:      &anyName,
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, cfg.MaxBackoff),
		Reconciler:              r,
	})
	if err != nil {
		return err
	}
	for _, w := range watches {
		if err := c.Watch(w); err != nil {
			return err
		}
	}
	return nil
}

// caches are three, as a cache has one selector for a type.
type caches struct {
	targets cache.Cache // of all kinds
	source  cache.Cache // ConfigMap servingcert-ca-status
	status  cache.Cache // ConfigMap servingcert-trust-status
}
