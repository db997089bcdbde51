package controller

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// writtenFor bounds how long a write is believed that the cache never showed:
// it may have been undone in a gap of the watch.
const writtenFor = 30 * time.Second

// written remembers what this process wrote until its cache has seen it. Without
// it a reconcile that runs in between would write everything a second time.
// Resource versions are compared as numbers (KEP-5504).
type written[T any] struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]writtenEntry[T]
}

type writtenEntry[T any] struct {
	version uint64
	value   T
	until   time.Time
}

func newWritten[T any]() *written[T] {
	return &written[T]{entries: map[types.NamespacedName]writtenEntry[T]{}}
}

// put remembers what was written to the object as of the resource version that
// the API server answered with.
func (w *written[T]) put(key types.NamespacedName, resourceVersion string, value T, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries[key] = writtenEntry[T]{version(resourceVersion), value, now.Add(writtenFor)}
}

// newer returns what was written if the cache, which holds cachedVersion (empty:
// nothing), is still behind it. If it is not, the write is forgotten; last is
// then what it was.
func (w *written[T]) newer(key types.NamespacedName, cachedVersion string, now time.Time) (value T, behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[key]
	if !ok {
		return value, false
	}
	if version(cachedVersion) >= e.version || now.After(e.until) {
		delete(w.entries, key)
		return e.value, false
	}
	return e.value, true
}

// deleted forgets what was written to an object that was deleted later.
func (w *written[T]) deleted(key types.NamespacedName, resourceVersion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version(resourceVersion) >= w.entries[key].version {
		delete(w.entries, key)
	}
}

func version(resourceVersion string) uint64 {
	v, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
