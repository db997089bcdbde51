package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	queues "github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// noTimeout is longer than any process runs. A cache that does not sync is reported
// in the trust status, and stops nothing.
const noTimeout = 100 * 365 * 24 * time.Hour

// AddToScheme adds the types that the scheme of Setup's manager must have.
func AddToScheme(scheme *runtime.Scheme) error {
	errs := []error{corev1.AddToScheme(scheme)} // the source and the trust status
	for _, k := range target.Kinds(false) {
		errs = append(errs, k.AddToScheme(scheme))
	}
	return errors.Join(errs...)
}

// Setup adds to mgr what keeps the bundle in its targets; it runs on the leader. Its
// caches are its own, as they hold stripped objects.
func Setup(mgr manager.Manager, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	kept := slices.DeleteFunc(target.Kinds(cfg.OpenShift), func(k target.Kind) bool { return !slices.Contains(cfg.Targets, k.Name) })
	if err := setup(mgr, cfg, kept); err != nil {
		return fmt.Errorf("set up trust: %w", err)
	}
	return nil
}

func setup(mgr manager.Manager, cfg Config, all []target.Kind) error {
	c, err := newStatusCaches(mgr, cfg.Namespace)
	if err != nil {
		return err
	}
	changes := make(chan event.TypedGenericEvent[struct{}], 1)
	changed := func() {
		select {
		case changes <- event.TypedGenericEvent[struct{}]{}:
		default: // an earlier change is still to be handled
		}
	}
	status := &statusReconciler{
		kinds:  newKinds(all, changed),
		now:    cfg.Now,
		key:    types.NamespacedName{Namespace: cfg.Namespace, Name: api.TrustStatusName},
		source: sourceReader{c.source, cfg.Namespace, &trust.Sources{Public: cfg.PublicRoots}},
		status: c.status,
		writer: mgr.GetClient(),
		state:  newTargetState(changed),
		events: eventWriter{mgr.GetEventRecorder(trust.FieldManager), mgr.GetScheme()},
	}
	metrics := newMetrics(all, status.summary)
	if err := cfg.Metrics.Register(metrics); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := addStatusController(mgr, cfg, c, status, changes); err != nil {
		return err
	}
	return addKeepers(mgr, cfg, c, all, status, metrics)
}

// addKeepers adds a keeper for each kind, and one for BackendTLSPolicies.
func addKeepers(mgr manager.Manager, cfg Config, c statusCaches, all []target.Kind, status *statusReconciler, metrics *metrics) error {
	live, err := client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	prober := prober{live, mgr.GetScheme()}
	for _, kind := range all {
		t := &targets{
			kind:   kind,
			cfg:    cfg,
			kinds:  status.kinds,
			prober: prober,
			source: c.source,
			events: status.events,
			reconciler: func(served target.Kind, targets client.Reader) *reconciler {
				return &reconciler{
					kind:     served,
					now:      cfg.Now,
					patience: cfg.Patience,
					targets:  targets,
					source:   status.source,
					writer:   fieldWriter{served, mgr.GetScheme(), status.writer, mgr.GetAPIReader()},
					state:    status.state,
					events:   status.events,
					metrics:  metrics,
				}
			},
		}
		if err := mgr.Add(&keeper{"trust-" + kind.Name, mgr, cfg, prober, t.find, t.report}); err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
	}
	if cfg.BackendTLS {
		p := &policies{mgr: mgr, cfg: cfg, prober: prober, events: status.events}
		return mgr.Add(&keeper{"trust-backend-tls", mgr, cfg, prober, p.find, p.report})
	}
	return nil
}

// sourceKeys are the keys of the source that are read.
var sourceKeys = []string{api.BundleKey, api.CABundleHash, api.CAOwnBundle, api.CAOwnBundleHash}

// bundleChanged ignores changes of the source other than of the bundle.
func bundleChanged() predicate.TypedPredicate[*corev1.ConfigMap] {
	return predicate.TypedFuncs[*corev1.ConfigMap]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.ConfigMap]) bool {
			return slices.ContainsFunc(sourceKeys, func(key string) bool { return e.ObjectOld.Data[key] != e.ObjectNew.Data[key] })
		},
	}
}

// addStatusController reconciles the trust status when a target's record, a kind,
// the source or the status itself changed, but not more often than StatusDelay, and less
// often if there are many targets.
func addStatusController(mgr manager.Manager, cfg Config, c statusCaches, r *statusReconciler, changes <-chan event.TypedGenericEvent[struct{}]) error {
	only := reconcile.Request{NamespacedName: r.key}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	later := func(q queue) { q.AddAfter(only, trust.StatusDelay(cfg.StatusDelay, r.targets())) }
	onConfigMap := handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[*corev1.ConfigMap], q queue) { later(q) },
		UpdateFunc: func(_ context.Context, _ event.TypedUpdateEvent[*corev1.ConfigMap], q queue) { later(q) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[*corev1.ConfigMap], q queue) { later(q) },
	}
	onChange := handler.TypedFuncs[struct{}, reconcile.Request]{
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[struct{}], q queue) { later(q) },
	}
	atStart := source.Func(func(_ context.Context, q queue) error {
		later(q)
		return nil
	})
	controller, err := newController(mgr, cfg, "trust-status", 1, r, []source.Source{
		atStart,
		source.TypedChannel(changes, onChange),
		source.Kind(c.source, &corev1.ConfigMap{}, onConfigMap),
		source.Kind(c.status, &corev1.ConfigMap{}, onConfigMap),
	})
	if err != nil {
		return err
	}
	return mgr.Add(controller)
}

func newController(mgr manager.Manager, cfg Config, name string, workers int, r reconcile.Reconciler, watches []source.Source) (controller.Controller, error) {
	return facts.NewController(mgr, name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		CacheSyncTimeout:        noTimeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, cfg.MaxBackoff),
		NewQueue:                queues.ForWorkers(workers),
	}, watches...)
}

// statusCaches are those of the two ConfigMaps that are read by name.
type statusCaches struct {
	source cache.Cache // ConfigMap servingcert-ca-status
	status cache.Cache // ConfigMap servingcert-trust-status
}

func newStatusCaches(mgr manager.Manager, namespace string) (statusCaches, error) {
	var c statusCaches
	stripSource := func(obj client.Object) {
		cm := obj.(*corev1.ConfigMap)
		cm.BinaryData = nil
		maps.DeleteFunc(cm.Data, func(key, _ string) bool { return !slices.Contains(sourceKeys, key) })
	}
	for into, reads := range map[*cache.Cache][]target.Read{
		&c.source: oneConfigMap(namespace, api.CAStatusName, stripSource),
		&c.status: oneConfigMap(namespace, api.TrustStatusName, func(client.Object) {}),
	} {
		made, err := newCache(context.Background(), mgr, reads) // the context is for indices, of which there are none
		if err != nil {
			return c, err
		}
		if err := mgr.Add(made); err != nil {
			return c, fmt.Errorf("add a cache: %w", err)
		}
		*into = made
	}
	return c, nil
}
