package rotator

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
)

// name is the reporting controller of events.
const name = "servingcert-rotator"

// AddToScheme adds the types that Setup's manager must know.
func AddToScheme(scheme *runtime.Scheme) error { return corev1.AddToScheme(scheme) }

// Setup adds to mgr what finds missed pods, follows who serves what, and restarts
// those that ask for it. It works on the leader; its caches
// are its own, so that what they leave out is left out for nobody else.
func Setup(mgr manager.Manager, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("rotator: %w", err)
	}
	if err := setup(mgr, cfg); err != nil {
		return fmt.Errorf("set up rotator: %w", err)
	}
	return nil
}

func setup(mgr manager.Manager, cfg Config) error {
	protobuf := rest.CopyConfig(mgr.GetConfig()) // as JSON, 30 000 pods take over 30 s to read, against 9 s
	protobuf.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfigAndClient(protobuf, mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	pods, err := newPodCache(clientset.CoreV1().RESTClient())
	if err != nil {
		return fmt.Errorf("make the cache of pods: %w", err)
	}
	options := cacheOptions(cfg)
	options.HTTPClient, options.Scheme, options.Mapper = mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()
	others, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("make a cache: %w", err)
	}
	for _, c := range []manager.Runnable{pods, others} {
		if err := mgr.Add(c); err != nil {
			return fmt.Errorf("add a cache: %w", err)
		}
	}
	r := &reconciler{
		cfg:          cfg,
		pods:         pods,
		others:       others,
		conventional: &conventional{},
		ledger:       newLedger(),
		events:       eventWriter{mgr.GetEventRecorder(name)},
	}
	serve := newConsumersLedger()
	if err := cfg.Metrics.Register(&metrics{r.ledger, serve}); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	look, err := setupRestarts(mgr, cfg, pods, serve.stale)
	if err != nil {
		return fmt.Errorf("set up restarts: %w", err)
	}
	if err := setupConsumers(mgr, cfg, pods, others, serve, look); err != nil {
		return fmt.Errorf("set up consumers: %w", err)
	}
	return addController(mgr, r, others)
}

// addController looks at a namespace after something in it has changed.
func addController(mgr manager.Manager, r *reconciler, others cache.Cache) error {
	anyName := true // controller-runtime wants names to be unique in a process, tests run several managers
	c, err := controller.New("missed-pods", mgr, controller.Options{
		SkipNameValidation:      &anyName,
		MaxConcurrentReconciles: r.cfg.Workers,
		Reconciler:              r,
	})
	if err != nil {
		return err
	}
	enqueue := func(q queue, namespace string) { q.AddAfter(request(namespace), r.cfg.Delay) }
	onNamespace := onChange(func(q queue, ns *metav1.PartialObjectMetadata) { enqueue(q, ns.Name) })
	onService := onChange(func(q queue, svc *corev1.Service) { enqueue(q, svc.Namespace) })
	for _, w := range []source.Source{
		&podSource{r.pods, enqueue},
		source.Kind(others, namespaceMetadata(), onNamespace),
		source.Kind(others, &corev1.Service{}, onService, servicePredicate{}),
		source.Kind(others, &corev1.ConfigMap{}, r.conventional.handler(enqueue)),
	} {
		if err := c.Watch(w); err != nil {
			return err
		}
	}
	return nil
}

func onChange[T client.Object](enqueue func(queue, T)) handler.TypedFuncs[T, reconcile.Request] {
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { enqueue(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { enqueue(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { enqueue(q, e.Object) },
	}
}

// servicePredicate passes over Services that ask for nothing, and over changes
// that are not about pods: the signer's conditions above all.
type servicePredicate struct{}

func (servicePredicate) Create(e event.TypedCreateEvent[*corev1.Service]) bool { return asks(e.Object) }
func (servicePredicate) Delete(e event.TypedDeleteEvent[*corev1.Service]) bool { return asks(e.Object) }
func (servicePredicate) Generic(event.TypedGenericEvent[*corev1.Service]) bool { return false }
func (servicePredicate) Update(e event.TypedUpdateEvent[*corev1.Service]) bool {
	before, asked := api.Wants(e.ObjectOld)
	after, asks := api.Wants(e.ObjectNew)
	return asked != asks || before != after || !maps.Equal(e.ObjectOld.Spec.Selector, e.ObjectNew.Spec.Selector)
}

func asks(svc *corev1.Service) bool {
	_, ok := api.Wants(svc)
	return ok
}
