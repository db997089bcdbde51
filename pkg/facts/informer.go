package facts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Queue is the queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Object is facts of an object, a pointer type.
type Object interface {
	comparable
	client.Object
}

// Options says what an Informer holds: facts T of objects O.
type Options[O runtime.Object, T Object] struct {
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
type Informer[T Object] struct {
	store      holder[T]
	reflector  *toolscache.Reflector
	leaderOnly bool
}

// holder is a store of facts of whatever objects.
type holder[T Object] interface {
	toolscache.ReflectorStore
	get(key types.NamespacedName) T
	keys(namespace string) []types.NamespacedName
	found(index, value string, most int) []types.NamespacedName
	handle(change[T])
	hasSynced() bool
}

// NewInformer returns an Informer, which watches once it is started.
func NewInformer[O runtime.Object, T Object](o Options[O, T]) (*Informer[T], error) {
	if o.Objects == nil || o.Derive == nil {
		return nil, fmt.Errorf("cache of %T: nothing lists the objects, or nothing derives facts of them", o.Example)
	}
	s := &store[O, T]{derive: o.Derive, worker: fmt.Sprintf("watch of %T", o.Example), items: map[name]T{}, indices: map[string]*index[T]{}}
	for by, values := range o.Indexers {
		s.indices[by] = newIndex(values)
	}
	objects := &watched{toolscache.ToListerWatcherWithContext(o.Objects), o.Objects, s.Transformer()}
	return &Informer[T]{s, toolscache.NewReflectorWithOptions(objects, o.Example, s, toolscache.ReflectorOptions{}), o.LeaderOnly}, nil
}

// Start watches until ctx ends; a manager calls it.
func (i *Informer[T]) Start(ctx context.Context) error {
	i.reflector.RunWithContext(ctx)
	return nil
}

// NeedLeaderElection reports whether only the leader watches.
func (i *Informer[T]) NeedLeaderElection() bool { return i.leaderOnly }

// HasSynced reports whether the facts of all objects are there.
func (i *Informer[T]) HasSynced() bool { return i.store.hasSynced() }

// Get returns the facts of an object, or the zero T if there are none.
func (i *Informer[T]) Get(key types.NamespacedName) T { return i.store.get(key) }

// All yields all facts, in no order. What changes meanwhile may be among them or not.
func (i *Informer[T]) All() iter.Seq[T] { return i.In(metav1.NamespaceAll) }

// In yields the facts of a namespace as All does; those of all if it is metav1.NamespaceAll.
func (i *Informer[T]) In(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) { i.of(i.store.keys(namespace))(yield) }
}

// List returns all facts, in no order.
func (i *Informer[T]) List() []T { return slices.Collect(i.All()) }

// ByIndex returns the facts for which an indexer gave the value, in no order. The
// index must be one of those of the Options.
func (i *Informer[T]) ByIndex(index, value string) []T {
	return slices.Collect(i.of(i.store.found(index, value, math.MaxInt)))
}

// Few is ByIndex if there are not more than most such facts, and returns false otherwise. Unlike
// that of ByIndex, its cost does not grow with how many there are.
func (i *Informer[T]) Few(index, value string, most int) (found []T, all bool) {
	keys := i.store.found(index, value, most+1)
	if len(keys) > most {
		return nil, false
	}
	return slices.Collect(i.of(keys)), true
}

// of yields the facts of those objects that are there.
func (i *Informer[T]) of(keys []types.NamespacedName) iter.Seq[T] {
	return func(yield func(T) bool) {
		var none T
		for _, key := range keys {
			if facts := i.store.get(key); facts != none && !yield(facts) {
				return
			}
		}
	}
}

// Handler is called with the facts of an object before and after a change: before
// is the zero T if the object was added, after if it was deleted.
type Handler[T Object] func(ctx context.Context, q Queue, before, after T)

// Handle calls h for each object that is there, and from then on for each change, in the goroutine
// that watches, and before those who ask later. It is for what is derived from all objects.
func (i *Informer[T]) Handle(h func(before, after T)) {
	i.store.handle(func(before, after T, _ bool) { h(before, after) })
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
	s.informer.store.handle(func(before, after T, initial bool) {
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
