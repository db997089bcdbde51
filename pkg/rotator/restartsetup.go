package rotator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// setupRestarts adds to mgr what restarts workloads. stale returns those of a
// namespace that there is reason to; look is to be called when that has changed,
// at any time and by anyone.
func setupRestarts(mgr manager.Manager, cfg Config, pods *podCache, stale func(namespace string) []staleWorkload) (look func(namespace string), err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme), policyv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	live, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	namespaces := &namespaceSource{delay: cfg.Delay}
	r := &restarter{
		cfg: cfg, pods: pods, stale: stale, live: live,
		events: eventWriter{mgr.GetEventRecorder(name)},
		state:  newRestartState(mgr.Elected()),
		look:   namespaces.look,
	}
	if err := cfg.Metrics.Register(r.state); err != nil {
		return nil, fmt.Errorf("register metrics of restarts: %w", err)
	}
	anyName := true // controller-runtime wants names to be unique in a process, tests run several managers
	c, err := controller.New("restarts", mgr, controller.Options{
		SkipNameValidation:      &anyName,
		MaxConcurrentReconciles: 1, // see restarter
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
		Reconciler:              r,
	})
	if err != nil {
		return nil, err
	}
	return namespaces.look, c.Watch(namespaces)
}

// namespaceSource enqueues namespaces on request. What is asked for before it
// starts is kept.
type namespaceSource struct {
	delay time.Duration

	mu    sync.Mutex
	queue queue
	early map[string]bool
}

// String names the source in logs.
func (s *namespaceSource) String() string { return "stale workloads" }

// Start implements source.Source.
func (s *namespaceSource) Start(_ context.Context, q queue) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = q
	for namespace := range s.early {
		q.AddAfter(request(namespace), s.delay)
	}
	s.early = nil
	return nil
}

func (s *namespaceSource) look(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil {
		s.queue.AddAfter(request(namespace), s.delay)
		return
	}
	if s.early == nil {
		s.early = map[string]bool{}
	}
	s.early[namespace] = true
}
