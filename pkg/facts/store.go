package facts

import (
	"fmt"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// store holds the facts of objects O, of type T, and tells handlers of each change. A reflector fills it. client-go's own store keeps a set for every value of an
// index, which for values that are nearly unique is larger than the facts, and queues every
// change twice before a handler sees it.
type store[O any, T Object] struct {
	derive func(O) T
	worker string // who is busy with an object, for package heartbeat

	// changes is held while a change is made and its handlers run, so that each handler sees
	// all changes in their order.
	changes  sync.Mutex
	handlers []change[T]

	mu      sync.RWMutex
	items   map[name]T
	indices map[string]*index[T]
	synced  bool
}

// change is called with the facts of an object before and after a change, as a Handler is.
// initial is true of what was there when the store, or whoever handles its changes, started.
type change[T Object] func(before, after T, initial bool)

var _ toolscache.TransformingStore = (*store[any, *metav1.PartialObjectMetadata])(nil)

// derived is the facts of an object until they are in the store: a reflector collects the
// objects that are there when it starts.
type derived[T Object] struct{ facts T }

// GetObjectMeta makes the reflector know the object by its name.
func (d derived[T]) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: d.facts.GetNamespace(), Name: d.facts.GetName()}
}

// GetObjectKind makes it an object of a list.
func (d derived[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject makes it an object of a list, which nobody changes.
func (d derived[T]) DeepCopyObject() runtime.Object { return d }

// busy says that the goroutine that watches is busy with an object.
func (s *store[O, T]) busy(object any) (end func()) {
	var key types.NamespacedName
	if m, ok := object.(metav1.Object); ok {
		key = types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
	}
	return heartbeat.Process.Begin(s.worker, key)
}

// Transformer implements toolscache.TransformingStore.
func (s *store[O, T]) Transformer() toolscache.TransformFunc {
	return func(object any) (any, error) {
		if original, ok := object.(O); ok {
			defer s.busy(object)()
			return derived[T]{s.derive(original)}, nil
		}
		return object, nil // derived already
	}
}

// Add implements toolscache.ReflectorStore.
func (s *store[O, T]) Add(object any) error { return s.Update(object) }

// Update implements toolscache.ReflectorStore.
func (s *store[O, T]) Update(object any) error {
	original, ok := object.(O)
	if !ok {
		return fmt.Errorf("unexpected %T", object)
	}
	defer s.busy(object)()
	after := s.derive(original)
	s.changes.Lock()
	defer s.changes.Unlock()
	s.put(client.ObjectKeyFromObject(after), after)
	return nil
}

// Delete implements toolscache.ReflectorStore. Handlers get the facts of the object as it was
// deleted, whose resource version is that of the deletion.
func (s *store[O, T]) Delete(object any) error {
	original, ok := object.(O)
	if !ok {
		return fmt.Errorf("unexpected %T", object)
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	defer s.busy(object)()
	last := s.derive(original)
	if _, there := s.remove(client.ObjectKeyFromObject(last)); there {
		var none T
		s.tell(last, none)
	}
	return nil
}

// Replace implements toolscache.ReflectorStore: what is there is what is listed.
func (s *store[O, T]) Replace(objects []any, _ string) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	listed := make(map[types.NamespacedName]bool, len(objects))
	for i, object := range objects {
		object, err := s.Transformer()(object)
		if err != nil {
			return err
		}
		d, ok := object.(derived[T])
		if !ok {
			return fmt.Errorf("unexpected %T", object)
		}
		objects[i] = nil // it need not be kept until all are in the store
		key := client.ObjectKeyFromObject(d.facts)
		listed[key] = true
		s.put(key, d.facts)
	}
	for _, key := range s.keys(metav1.NamespaceAll) {
		if !listed[key] {
			before, _ := s.remove(key)
			var none T
			s.tell(before, none)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
	return nil
}

// Resync implements toolscache.ReflectorStore: nothing changes by itself.
func (s *store[O, T]) Resync() error { return nil }

// put keeps the facts of an object and tells it, unless nothing has changed.
func (s *store[O, T]) put(key types.NamespacedName, after T) {
	before := s.get(key)
	var none T
	if before != none && before.GetResourceVersion() == after.GetResourceVersion() && before.GetUID() == after.GetUID() {
		return // it was listed again
	}
	s.mu.Lock()
	named := nameOf(key)
	for _, index := range s.indices {
		index.change(named, before, after)
	}
	s.items[named] = after
	s.mu.Unlock()
	s.tell(before, after)
}

// remove removes an object, and returns its facts and whether it was there.
func (s *store[O, T]) remove(key types.NamespacedName) (before T, there bool) {
	var none T
	if before = s.get(key); before == none {
		return before, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, index := range s.indices {
		index.change(nameOf(key), before, none)
	}
	delete(s.items, nameOf(key))
	return before, true
}

func (s *store[O, T]) tell(before, after T) {
	initial := !s.hasSynced()
	for _, handler := range s.handlers {
		handler(before, after, initial)
	}
}

// handle calls the handler for each object, and from then on for each change.
func (s *store[O, T]) handle(handler change[T]) {
	s.changes.Lock()
	defer s.changes.Unlock()
	var none T
	for _, key := range s.keys(metav1.NamespaceAll) {
		handler(none, s.get(key), true)
	}
	s.handlers = append(s.handlers, handler)
}

func (s *store[O, T]) hasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// get returns the facts of an object, or the zero T.
func (s *store[O, T]) get(key types.NamespacedName) T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.items[nameOf(key)]
}

// keys returns the keys of the objects in a namespace; of all if it is metav1.NamespaceAll.
func (s *store[O, T]) keys(namespace string) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all, in := namespace == metav1.NamespaceAll, unique.Make(namespace)
	var keys []types.NamespacedName
	if all {
		keys = make([]types.NamespacedName, 0, len(s.items))
	}
	for named := range s.items {
		if all || named.namespace == in {
			keys = append(keys, named.key())
		}
	}
	return keys
}

// found returns the keys of the objects for which an index has the value: not more than most of them.
func (s *store[O, T]) found(by, value string, most int) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	index, ok := s.indices[by]
	if !ok {
		panic("no index " + by)
	}
	return index.find(value, most)
}

// name is a types.NamespacedName, of which many objects share the namespace: each comes from
// the API server with a copy.
type name struct {
	namespace unique.Handle[string]
	name      string
}

func nameOf(key types.NamespacedName) name { return name{unique.Make(key.Namespace), key.Name} }

func (n name) key() types.NamespacedName {
	return types.NamespacedName{Namespace: n.namespace.Value(), Name: n.name}
}
