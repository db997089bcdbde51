package facts

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// Object is facts of an object, a pointer type.
type Object interface {
	comparable
	client.Object
}

// Options says what an Informer holds: facts T of objects O.
type Options[O client.Object, T Object] struct {
	// Example is one of the objects, empty. Label and Field select them, nil for all.
	Example O
	Label   labels.Selector
	Field   fields.Selector
	// Derive returns the facts of an object. It must not keep a reference to what
	// should not be held. If facts are of the same type as objects, those of facts are the facts.
	Derive func(O) T
	// Indexers return the values under which ByIndex finds facts, by index.
	Indexers map[string]func(T) []string
	// LeaderOnly keeps a standby from holding anything. It is for facts that are
	// many and quickly read.
	LeaderOnly bool
}

// Informer is an informer with a transform: it holds the facts of objects in their place. It is a
// Runnable of a manager. Facts that it returns must not be changed.
type Informer[T Object] struct {
	informer   toolscache.SharedIndexInformer
	start      func(context.Context) error
	registered toolscache.ResourceEventHandlerRegistration
	worker     string // who is busy with an object, for package heartbeat
	leaderOnly bool
	seen       Seen

	// changes is held while handlers run, so that each sees all changes in their order.
	changes  sync.Mutex
	handlers []change[T]
}

// change is called with the facts of an object before and after a change, as a Handler is.
// initial is true of what was there when the informer, or whoever handles its changes, started.
type change[T Object] func(before, after T, initial bool)

// NewInformer returns an Informer of a cache of its own, which watches with the manager's client once it is
// started: caches of a manager have one selector a kind.
func NewInformer[O client.Object, T Object](mgr manager.Manager, o Options[O, T]) (*Informer[T], error) {
	made, err := NewCache(mgr, Paged(cache.Options{
		SyncPeriod: new(time.Duration),
		ByObject:   map[client.Object]cache.ByObject{o.Example: {Label: o.Label, Field: o.Field, Transform: o.transform}},
	}))
	if err != nil {
		return nil, fmt.Errorf("cache of %T: %w", o.Example, err)
	}
	informer, err := made.GetInformer(context.Background(), o.Example, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("cache of %T: %w", o.Example, err)
	}
	return o.of(informer.(toolscache.SharedIndexInformer), made.Start)
}

// NewInformerOf returns an Informer of what lists and watches the objects, whatever the selectors.
func NewInformerOf[O client.Object, T Object](objects toolscache.ListerWatcher, o Options[O, T]) (*Informer[T], error) {
	informer := toolscache.NewSharedIndexInformer(Watched(objects, o.transform), o.Example, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(o.transform); err != nil {
		return nil, err
	}
	return o.of(informer, func(ctx context.Context) error { informer.RunWithContext(ctx); return nil })
}

func (o Options[O, T]) transform(object any) (any, error) {
	if original, ok := object.(O); ok {
		defer heartbeat.Process.Begin(o.worker(), client.ObjectKeyFromObject(original))()
		return o.Derive(original), nil
	}
	return object, nil // derived already
}

// worker is who is busy with an object, for package heartbeat.
func (o Options[O, T]) worker() string { return fmt.Sprintf("watch of %T", o.Example) }

func (o Options[O, T]) of(informer toolscache.SharedIndexInformer, start func(context.Context) error) (*Informer[T], error) {
	i := &Informer[T]{informer: informer, start: start, worker: o.worker(), leaderOnly: o.LeaderOnly}
	indexers := toolscache.Indexers{}
	for by, values := range o.Indexers {
		indexers[by] = func(object any) ([]string, error) { return values(object.(T)), nil }
	}
	if err := informer.AddIndexers(indexers); err != nil {
		return nil, fmt.Errorf("cache of %T: %w", o.Example, err)
	}
	var err error
	i.registered, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { i.changed(nil, object, initial) },
		UpdateFunc: func(before, after any) { i.changed(before, after, false) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			i.changed(object, nil, false)
		},
	})
	return i, err
}

// changed calls the handlers.
func (i *Informer[T]) changed(was, is any, initial bool) {
	before, _ := was.(T) // the zero T of nil
	after, _ := is.(T)
	var none T
	object := after
	if after == none {
		object = before
	}
	if object == none {
		return // a deletion that was missed, of what is not known
	}
	defer heartbeat.Process.Begin(i.worker, client.ObjectKeyFromObject(object))()
	i.changes.Lock()
	defer i.changes.Unlock()
	for _, handler := range i.handlers {
		handler(before, after, initial)
	}
	i.seen.Set(object.GetResourceVersion())
}

// handle calls the handler for each object, and from then on for each change.
func (i *Informer[T]) handle(handler change[T]) {
	i.changes.Lock()
	defer i.changes.Unlock()
	var none T
	for facts := range i.All() {
		handler(none, facts, true)
	}
	i.handlers = append(i.handlers, handler)
}

// Start watches until ctx ends; a manager calls it.
func (i *Informer[T]) Start(ctx context.Context) error { return i.start(ctx) }

// NeedLeaderElection reports whether only the leader watches.
func (i *Informer[T]) NeedLeaderElection() bool { return i.leaderOnly }

// HasSynced reports whether the facts of all objects are there, and all handlers know of them.
func (i *Informer[T]) HasSynced() bool { return i.registered.HasSynced() }

// Await waits as Seen.Await does, for the cache and all handlers.
func (i *Informer[T]) Await(ctx context.Context, resourceVersion string) {
	i.seen.Await(ctx, resourceVersion)
}

// Get returns the facts of an object, or the zero T if there are none.
func (i *Informer[T]) Get(key types.NamespacedName) T {
	object, _, _ := i.informer.GetIndexer().GetByKey(toolscache.NewObjectName(key.Namespace, key.Name).String()) // it has no error
	facts, _ := object.(T)
	return facts
}

// All yields all facts, in no order. What changes meanwhile may be among them or not.
func (i *Informer[T]) All() iter.Seq[T] { return of[T](i.informer.GetIndexer().List()) }

// In yields the facts of a namespace as All does; those of all if it is metav1.NamespaceAll.
func (i *Informer[T]) In(namespace string) iter.Seq[T] {
	if namespace == metav1.NamespaceAll {
		return i.All()
	}
	return i.byIndex(toolscache.NamespaceIndex, namespace)
}

// List returns all facts, in no order.
func (i *Informer[T]) List() []T { return slices.Collect(i.All()) }

// ByIndex returns the facts for which an indexer gave the value, in no order. The
// index must be one of those of the Options.
func (i *Informer[T]) ByIndex(index, value string) []T {
	return slices.Collect(i.byIndex(index, value))
}

func (i *Informer[T]) byIndex(index, value string) iter.Seq[T] {
	found, err := i.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		panic(err) // there is no such index
	}
	return of[T](found)
}

// of yields facts that an indexer has returned.
func of[T Object](objects []any) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, object := range objects {
			if !yield(object.(T)) {
				return
			}
		}
	}
}
