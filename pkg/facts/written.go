package facts

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WrittenFor bounds how long a write is believed that the cache never showed: it
// may have been undone in a gap of the watch.
const WrittenFor = 30 * time.Second

// Written remembers what this process wrote until its cache has seen it. Without it
// a reconcile that runs in between would write everything a second time. Resource
// versions are compared as numbers (KEP-5504).
type Written[T any] struct {
	mu       sync.Mutex
	entries  map[types.NamespacedName]entry[T]
	underWay map[types.NamespacedName]*underWay[T]
	echoes   []echoed // in the order in which they came
	dropped  int      // how many came before them
	timed    bool     // a timer will forget them
}

// underWay is a write whose answer is not here yet, and what the cache has shown of the object
// meanwhile.
type underWay[T any] struct {
	writers int
	value   T // of the last of them
	seen    []seen
	deleted uint64 // the last version that was deleted
}

// seen is a version of which nobody knows yet who wrote it.
type seen struct {
	version   uint64
	otherwise func() // if it was somebody else
}

// echoed is a write that the cache has seen.
type echoed struct {
	key     types.NamespacedName
	version uint64
	until   time.Time
}

type entry[T any] struct {
	version uint64
	value   T
	until   time.Time
	echoed  bool // the cache has seen it
}

// NewWritten returns a memory of no writes.
func NewWritten[T any]() *Written[T] {
	return &Written[T]{entries: map[types.NamespacedName]entry[T]{}, underWay: map[types.NamespacedName]*underWay[T]{}}
}

// Begin says that value is being written to the object. More often than not the cache shows a
// write before its answer is here, so nobody can tell until then who made it. end is to be
// called once, after Put if the write has succeeded.
func (w *Written[T]) Begin(key types.NamespacedName, value T) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.underWay[key]
	if u == nil {
		u = &underWay[T]{}
		w.underWay[key] = u
	}
	u.writers++
	u.value = value
	return func() { w.end(key) }
}

// end lets those know who were told by Echo to wait, unless another write is under way.
func (w *Written[T]) end(key types.NamespacedName) {
	w.mu.Lock()
	u := w.underWay[key]
	u.writers--
	if u.writers > 0 {
		w.mu.Unlock()
		return
	}
	delete(w.underWay, key)
	w.mu.Unlock()
	for _, s := range u.seen {
		s.otherwise()
	}
}

// Put remembers what was written to the object, which has had the resource version
// since.
func (w *Written[T]) Put(key types.NamespacedName, resourceVersion string, value T, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := entry[T]{version: version(resourceVersion), value: value, until: now.Add(WrittenFor)}
	u := w.underWay[key]
	if u == nil {
		w.entries[key] = written
		return
	}
	if u.deleted == 0 || u.deleted < written.version {
		w.entries[key] = written
	}
	others := slices.DeleteFunc(u.seen, func(s seen) bool { return s.version == written.version })
	if len(others) < len(u.seen) {
		w.forgetAfter(key, written.version, now)
	}
	u.seen = others
}

// Newer returns what was written to the object, and whether the cache is behind it.
// The cache holds cachedVersion, "" if it does not hold the object. Once WrittenFor is over,
// the write is returned a last time and then forgotten; once the cache is not behind, it is
// forgotten echoFor later, as others may have read the cache before.
func (w *Written[T]) Newer(key types.NamespacedName, cachedVersion string, now time.Time) (value T, behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[key]
	switch {
	case !ok:
		return value, false
	case now.After(e.until):
		delete(w.entries, key)
		return e.value, false
	case version(cachedVersion) >= e.version:
		w.forgetAfter(key, e.version, now)
		return e.value, false
	}
	return e.value, true
}

// echoFor is how long a write is remembered after the cache has seen it: a thousand times what
// anybody needs who has read the cache before that, and asks Newer afterwards. While thousands
// are written, what is remembered for five seconds is megabytes of the heap.
const echoFor = time.Second

// Echo returns what was written to the object if that gave it the resource version: the cache
// has now seen that write, and nothing else. It is forgotten echoFor later, whether or not
// anybody asks for it. While a write is under way, Echo says yes without a value; if it turns
// out that the version is another's, otherwise is called when the write has ended.
func (w *Written[T]) Echo(key types.NamespacedName, resourceVersion string, now time.Time, otherwise func()) (value T, echo bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.echoes) > 0 && now.After(w.echoes[0].until) {
		w.forgetFirst()
	}
	v := version(resourceVersion)
	if v == 0 {
		return value, false
	}
	if e, ok := w.entries[key]; ok && e.version == v {
		w.forgetAfter(key, v, now)
		return e.value, true
	}
	u := w.underWay[key]
	if u != nil {
		u.seen = append(u.seen, seen{v, otherwise})
	}
	return value, u != nil
}

// forgetAfter forgets the write that the cache has seen now, or before, once echoFor is over.
func (w *Written[T]) forgetAfter(key types.NamespacedName, version uint64, now time.Time) {
	e, ok := w.entries[key]
	if !ok || e.version != version || e.echoed {
		return
	}
	e.echoed = true
	w.entries[key] = e
	w.echoes = append(w.echoes, echoed{key, version, now.Add(echoFor)})
	if !w.timed {
		w.forgetLater()
	}
}

// forgetLater forgets the echoes that there are once echoFor is over. What has written thousands
// at once may not write again for days.
func (w *Written[T]) forgetLater() {
	w.timed = true
	until := w.dropped + len(w.echoes)
	time.AfterFunc(echoFor, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for w.dropped < until {
			w.forgetFirst()
		}
		if len(w.echoes) > 0 {
			w.forgetLater()
			return
		}
		w.timed, w.echoes = false, nil
		if len(w.entries) == 0 {
			w.entries = map[types.NamespacedName]entry[T]{} // a map does not shrink
		}
	})
}

// forgetFirst forgets the first echo, unless the object was written again.
func (w *Written[T]) forgetFirst() {
	if first := w.echoes[0]; w.entries[first.key].version == first.version {
		delete(w.entries, first.key)
	}
	w.echoes = w.echoes[1:]
	w.dropped++
}

// Last returns what is being written to the object or was written last, and the zero T if that
// is forgotten or nothing was. It takes nothing as seen.
func (w *Written[T]) Last(key types.NamespacedName) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if u := w.underWay[key]; u != nil {
		return u.value
	}
	return w.entries[key].value
}

// Deleted forgets what was written to an object that was deleted afterwards, with
// that resource version.
func (w *Written[T]) Deleted(key types.NamespacedName, resourceVersion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := version(resourceVersion)
	if v >= w.entries[key].version {
		delete(w.entries, key)
	}
	if u := w.underWay[key]; u != nil {
		u.deleted = v
	}
}
