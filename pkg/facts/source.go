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

// Handle calls h for each object that is there, and from then on for each change, before those who ask
// later. It is for what is derived from all objects.
func (i *Informer[T]) Handle(h func(before, after T)) {
	i.handle(func(before, after T, _ bool) { h(before, after) })
}

// Source returns a source for a controller, which waits until all facts are there
// and calls h for each change. The name is for logs. Those before have all their facts before h
// is called for the first time.
func (i *Informer[T]) Source(name string, h Handler[T], before ...Synced) source.SyncingSource {
	return &informerSource[T]{i, name, h, before, false}
}

// Changes is Source without a call of h for what is there when the controller starts: for
// objects that are looked at for the sake of others, which all come from a source of their own
// at that time.
func (i *Informer[T]) Changes(name string, h Handler[T]) source.SyncingSource {
	return &informerSource[T]{i, name, h, nil, true}
}

// Changed is a predicate for a source of controller-runtime that makes it what Changes is.
func Changed() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// Synced is an Informer of whatever facts.
type Synced interface{ HasSynced() bool }

type informerSource[T Object] struct {
	informer *Informer[T]
	name     string
	handler  Handler[T]
	before   []Synced
	changes  bool // no more than these
}

// String returns the name of the source, for logs.
func (s *informerSource[T]) String() string { return s.name }

// WaitForSync returns once the facts of all objects are there.
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

// Start implements source.Source. What is there already when the controller starts has a low
// priority in a queue that has priorities, as it has from controller-runtime's own sources,
// unless the handler names another.
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
