package facts

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Queue is the queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Options says what an Informer holds: facts T, a pointer type, of objects O.
type Options[O runtime.Object, T client.Object] struct {
	// Objects lists and watches the objects, and Example is one of them, empty.
	Objects toolscache.ListerWatcher
	Example O
	// Derive returns the facts of an object. It must not keep a reference to what
	// should not be held.
	Derive func(O) T
	// Indexers return the values under which ByIndex finds facts, by index.
	Indexers map[string]func(T) []string
	// LeaderOnly keeps a standby from holding anything. It is for facts that are
	// many and quickly read.
	LeaderOnly bool
}

// Informer holds the facts of the objects that it watches. It is a Runnable of a
// manager. Facts that it returns must not be changed.
type Informer[T client.Object] struct {
	informer   toolscache.SharedIndexInformer
	leaderOnly bool
}

// NewInformer returns an Informer, which watches once it is started.
func NewInformer[O runtime.Object, T client.Object](o Options[O, T]) (*Informer[T], error) {
	indexers := toolscache.Indexers{}
	for name, index := range o.Indexers {
		indexers[name] = func(object any) ([]string, error) {
			facts, ok := object.(T)
			if !ok {
				return nil, fmt.Errorf("index %q: unexpected %T", name, object)
			}
			return index(facts), nil
		}
	}
	informer := toolscache.NewSharedIndexInformer(o.Objects, o.Example, 0, indexers)
	err := informer.SetTransform(func(object any) (any, error) {
		if original, ok := object.(O); ok {
			return o.Derive(original), nil
		}
		return object, nil // facts already, or a tombstone of them
	})
	if err != nil {
		return nil, fmt.Errorf("derive facts of %T: %w", o.Example, err)
	}
	return &Informer[T]{informer, o.LeaderOnly}, nil
}

// Start watches until ctx ends; a manager calls it.
func (i *Informer[T]) Start(ctx context.Context) error {
	i.informer.RunWithContext(ctx)
	return nil
}

// NeedLeaderElection reports whether only the leader watches.
func (i *Informer[T]) NeedLeaderElection() bool { return i.leaderOnly }

// HasSynced reports whether the facts of all objects are there.
func (i *Informer[T]) HasSynced() bool { return i.informer.HasSynced() }

// Get returns the facts of an object, or the zero T if there are none.
func (i *Informer[T]) Get(key types.NamespacedName) T {
	name := key.String()
	if key.Namespace == "" {
		name = key.Name // as MetaNamespaceKeyFunc writes it
	}
	object, _, _ := i.informer.GetStore().GetByKey(name) // the store does not fail
	facts, _ := object.(T)
	return facts
}

// List returns all facts, in no order.
func (i *Informer[T]) List() []T { return factsIn[T](i.informer.GetStore().List()) }

// ByIndex returns the facts for which an indexer gave the value, in no order. The
// index must be one of those of the Options.
func (i *Informer[T]) ByIndex(index, value string) []T {
	objects, err := i.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		panic(err) // only an index that does not exist fails
	}
	return factsIn[T](objects)
}

func factsIn[T client.Object](objects []any) []T {
	facts := make([]T, 0, len(objects))
	for _, object := range objects {
		if f, ok := object.(T); ok {
			facts = append(facts, f)
		}
	}
	return facts
}

// Handler is called with the facts of an object before and after a change: before
// is the zero T if the object was added, after if it was deleted.
type Handler[T client.Object] func(ctx context.Context, q Queue, before, after T)

// Source returns a source for a controller, which waits until all facts are there
// and calls h for each change. The name is for logs.
func (i *Informer[T]) Source(name string, h Handler[T]) source.SyncingSource {
	return &informerSource[T]{i, name, h}
}

type informerSource[T client.Object] struct {
	informer *Informer[T]
	name     string
	handler  Handler[T]
}

// String returns the name of the source, for logs.
func (s *informerSource[T]) String() string { return s.name }

// WaitForSync returns once the facts of all objects are there.
func (s *informerSource[T]) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
		return errors.New("the cache of " + s.name + " did not sync")
	}
	return nil
}

// Start implements source.Source. What is there already when the controller starts has a low
// priority in a queue that has priorities, as it has from controller-runtime's own sources.
func (s *informerSource[T]) Start(ctx context.Context, q Queue) error {
	var none T
	changes := handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[T], q Queue) { s.handler(ctx, q, none, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q Queue) {
			s.handler(ctx, q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q Queue) { s.handler(ctx, q, e.Object, none) },
	}
	_, err := s.informer.informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if after, ok := object.(T); ok {
				changes.Create(ctx, event.TypedCreateEvent[T]{Object: after, IsInInitialList: initial}, q)
			}
		},
		UpdateFunc: func(old, object any) {
			before, ok := old.(T)
			after, ok2 := object.(T)
			if ok && ok2 {
				changes.Update(ctx, event.TypedUpdateEvent[T]{ObjectOld: before, ObjectNew: after}, q)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if before, ok := object.(T); ok {
				changes.Delete(ctx, event.TypedDeleteEvent[T]{Object: before}, q)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", s.name, err)
	}
	return nil
}
