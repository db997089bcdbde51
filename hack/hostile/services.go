package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// services are a tenant's, as its own watch has them.
type services struct {
	mu      sync.Mutex
	known   map[string]arrived
	changed chan struct{} // closed at the next change
	done    func()
}

// arrived is a Service and when the watch brought it.
type arrived struct {
	*corev1.Service
	at time.Time
}

// watchServices watches until stop is called.
func watchServices(ctx context.Context, t *tenant) (*services, error) {
	s := &services{known: map[string]arrived{}, changed: make(chan struct{})}
	factory := informers.NewSharedInformerFactoryWithOptions(t.clientset, 0, informers.WithNamespace(t.namespace))
	informer := factory.Core().V1().Services().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.set(obj) },
		UpdateFunc: func(_, obj any) { s.set(obj) },
	})
	if err != nil {
		return nil, err
	}
	ending := make(chan struct{})
	factory.Start(ending)
	s.done = func() {
		close(ending)
		factory.Shutdown()
	}
	factory.WaitForCacheSync(ctx.Done())
	return s, ctx.Err()
}

func (s *services) stop() { s.done() }

func (s *services) set(obj any) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[svc.Name] = arrived{svc, time.Now()}
	close(s.changed)
	s.changed = make(chan struct{})
}

// now returns the Service, which must have been waited for before.
func (s *services) now(name string) *corev1.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name].Service
}

// wait returns the Service once it is as wanted.
func (s *services) wait(ctx context.Context, name, what string, wanted func(*corev1.Service) bool) (arrived, error) {
	for {
		s.mu.Lock()
		svc, known := s.known[name]
		changed := s.changed
		s.mu.Unlock()
		if known && wanted(svc.Service) {
			return svc, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return arrived{}, late(ctx, "Service %s: %s", name, what)
		}
	}
}
