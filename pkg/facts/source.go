package facts

import (
	"context"
	"errors"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Queue is the queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Handler is called with the facts of an object before and after a change: before
// is the zero T if the object was added, after if it was deleted.
type Handler[T Object] func(ctx context.Context, q Queue, before, after T)

// Handle calls h for each existing object, and then for each change, before handlers that are added later. It is
// for state that is derived from all objects.
func (i *Informer[T]) Handle(h func(before, after T)) {
	i.handle(func(before, after T, _ bool) { h(before, after) })
}

// Source returns a source for a controller. It waits until all facts are cached, and calls h for each object and
// each change. The name is for logs. The first call of h waits until the informers before have synced.
func (i *Informer[T]) Source(name string, h Handler[T], before ...Synced) source.SyncingSource {
	return &informerSource[T]{i, name, h, before, false}
}

// Changes is Source without calls of h for objects that exist when the controller starts. It is for objects that
// affect others, if a Source of those others enqueues all of them at the start.
func (i *Informer[T]) Changes(name string, h Handler[T]) source.SyncingSource {
	return &informerSource[T]{i, name, h, nil, true}
}

// Changed is a predicate that makes a source of controller-runtime behave like Changes.
func Changed() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// Synced is an Informer of any facts.
type Synced interface{ HasSynced() bool }

type informerSource[T Object] struct {
	informer *Informer[T]
	name     string
	handler  Handler[T]
	before   []Synced
	changes  bool // skip existing objects
}

// String returns the name of the source, for logs.
func (s *informerSource[T]) String() string { return s.name }

// WaitForSync waits until the facts of all objects are cached.
func (s *informerSource[T]) WaitForSync(ctx context.Context) error {
	return s.waitFor(ctx, s.informer)
}

func (s *informerSource[T]) waitFor(ctx context.Context, informers ...Synced) error {
	for _, informer := range informers {
		if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return errors.New("the cache of " + s.name + " did not sync")
		}
	}
	return nil
}

// Start implements source.Source. In a priority queue, objects that exist when the controller starts get a low
// priority, as from controller-runtime's own sources, unless the handler sets another.
func (s *informerSource[T]) Start(ctx context.Context, q Queue) error {
	if err := s.waitFor(ctx, s.before...); err != nil {
		return err
	}
	var none T
	atStart := handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q Queue) { s.handler(ctx, q, none, e.Object) },
	}
	s.informer.handle(func(before, after T, initial bool) {
		switch {
		case initial && s.changes:
		case initial && before == none:
			atStart.Create(ctx, event.TypedCreateEvent[T]{Object: after, IsInInitialList: true}, q)
		default:
			s.handler(ctx, q, before, after)
		}
	})
	return nil
}
