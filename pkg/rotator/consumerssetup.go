package rotator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// setupConsumers adds to mgr what follows who serves what.
func setupConsumers(mgr manager.Manager, cfg Config, pods *podCache, others cache.Cache, ledger *consumersLedger, look func(string)) error {
	if err := others.IndexField(context.Background(), &corev1.Service{}, byPart, indexPart); err != nil {
		return fmt.Errorf("index Services: %w", err)
	}
	bundles, err := addBundles(mgr, cfg)
	if err != nil {
		return err
	}
	c := &consumers{
		cfg: cfg, pods: pods, others: others, writer: mgr.GetClient(), ledger: ledger,
		events: eventWriter{mgr.GetEventRecorder(name)}, propagation: newPropagation(), look: look,
	}
	from := &consumersSource{pods: pods, ledger: ledger, delay: cfg.Delay}
	c.prober = newProber(cfg, bundles.get, func(v visitKey, answers []answer) {
		ledger.record(v, answers)
		from.enqueue(v.secret)
	})
	if err := errors.Join(cfg.Metrics.Register(c.propagation), cfg.Metrics.Register(c.prober.results)); err != nil {
		return fmt.Errorf("register metrics of consumers: %w", err)
	}
	if err := mgr.Add(c.prober); err != nil {
		return fmt.Errorf("add the prober: %w", err)
	}
	anyName := true // controller-runtime wants names to be unique in a process, tests run several managers
	ctrl, err := controller.New("consumers", mgr, controller.Options{
		SkipNameValidation:      &anyName,
		MaxConcurrentReconciles: cfg.Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, time.Minute),
		Reconciler:              c,
	})
	if err != nil {
		return err
	}
	sources := []source.Source{source.Kind(others, &corev1.Service{}, partHandler(cfg.Delay)), bundles.source}
	if cfg.VerifyConsumers {
		sources = append(sources, from)
	}
	for _, s := range sources {
		if err := ctrl.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// byPart finds the Services with a part in a Secret; under partInNone those with
// none that still say something of what is served.
const (
	byPart     = "servingcert.part"
	partInNone = "\x00none" // no annotation's value that kubectl can write
)

func indexPart(object client.Object) []string {
	svc, ok := object.(*corev1.Service)
	if !ok {
		return nil
	}
	return partsOf(svc)
}

func partsOf(svc *corev1.Service) []string {
	if secret, ok := api.PartIn(svc); ok {
		return []string{secret}
	}
	if svc.DeletionTimestamp == nil && api.Condition(svc, api.ConditionServing) != nil {
		return []string{partInNone}
	}
	return nil
}

// partHandler enqueues the Secrets that a Service has, and had, a part in, if
// anything changed that is kept of it.
func partHandler(delay time.Duration) handler.TypedFuncs[*corev1.Service, reconcile.Request] {
	enqueue := func(q queue, services ...*corev1.Service) {
		for _, svc := range services {
			for _, secret := range partsOf(svc) {
				q.AddAfter(consumersRequest(svc.Namespace, secret), delay)
			}
		}
	}
	return handler.TypedFuncs[*corev1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Service], q queue) { enqueue(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Service], q queue) {
			before, after := e.ObjectOld, e.ObjectNew
			if before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !maps.Equal(before.Annotations, after.Annotations) ||
				!reflect.DeepEqual(before.Spec, after.Spec) || !reflect.DeepEqual(before.Status, after.Status) {
				enqueue(q, before, after)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Service], q queue) { enqueue(q, e.Object) },
	}
}

func consumersRequest(namespace, secret string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: secret}}
}

// consumersSource enqueues the Secrets of pods that came, went, or changed in
// what matters here, and of those that answered. Secrets that nobody follows are
// passed over: most Secrets that pods mount hold no certificate.
type consumersSource struct {
	pods   *podCache
	ledger *consumersLedger
	delay  time.Duration
	queue  atomic.Pointer[queue]
}

// String names the source in logs.
func (s *consumersSource) String() string { return "pods that mount a certificate" }

// WaitForSync returns once all pods are in the cache.
func (s *consumersSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.pods.HasSynced) {
		return errors.New("the cache of pods did not fill")
	}
	return nil
}

// Start implements source.Source.
func (s *consumersSource) Start(_ context.Context, q queue) error {
	s.queue.Store(&q)
	_, err := s.pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: s.changed,
		UpdateFunc: func(old, object any) {
			before, ok := old.(*PodFacts)
			after, ok2 := object.(*PodFacts)
			switch {
			case !ok || !ok2:
			case before.Template != after.Template || before.UID != after.UID:
				s.changed(before)
				s.changed(after)
			case before.Ready != after.Ready || before.IP != after.IP || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil):
				s.changed(after)
			}
		},
		DeleteFunc: s.changed,
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

func (s *consumersSource) changed(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if f, ok := object.(*PodFacts); ok {
		for _, secret := range f.mounts() {
			s.enqueue(types.NamespacedName{Namespace: f.Namespace, Name: secret})
		}
	}
}

func (s *consumersSource) enqueue(key types.NamespacedName) {
	if q := s.queue.Load(); q != nil && s.ledger.follows(key) {
		(*q).AddAfter(reconcile.Request{NamespacedName: key}, s.delay)
	}
}

// bundles knows the roots that the signer publishes.
type bundles struct {
	latest atomic.Pointer[pki.Bundle]
	source source.Source
}

func (b *bundles) get() pki.Bundle {
	if latest := b.latest.Load(); latest != nil {
		return *latest
	}
	return pki.Bundle{}
}

// set keeps what was known if what is published cannot be read.
func (b *bundles) set(cm *corev1.ConfigMap) {
	if bundle, err := pki.ParseBundle([]byte(cm.Data[api.BundleKey])); err == nil {
		b.latest.Store(&bundle)
	}
}

// addBundles adds a cache of the one ConfigMap. It is not that of cacheOptions,
// which selects another by name.
func addBundles(mgr manager.Manager, cfg Config) (*bundles, error) {
	published, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{cfg.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", api.CAStatusName)}},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	if err := mgr.Add(published); err != nil {
		return nil, fmt.Errorf("add a cache: %w", err)
	}
	b := &bundles{}
	b.source = source.Kind(published, &corev1.ConfigMap{}, handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], _ queue) { b.set(e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], _ queue) { b.set(e.ObjectNew) },
	})
	return b, nil
}
