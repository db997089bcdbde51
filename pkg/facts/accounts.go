package facts

import (
	"cmp"
	"slices"
	"sync"
	"unique"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// Accounts decide of which objects of one kind a cache keeps the facts, so that all of them
// together need no more memory than a Share. What is kept follows from the objects that there
// are, whatever the order in which they came, so that all processes, and the next one, keep the
// same:
//
//   - A namespace keeps the facts of its oldest objects, as far as its share reaches.
//   - If that is more than the cluster's share, the namespaces that need most keep less: all that
//     need more than a level have that level. Who needs less loses nothing.
//
// Admit decides at once, for whatever is there, and never exceeds the share. Where that turns out
// to differ from these rules, the objects are listed again: see Watched.
type Accounts struct {
	kind  string
	share api.Share

	mu      sync.Mutex
	entries map[name]*entryOf
	spaces  map[unique.Handle[string]]*space
	used    int64
	over    int    // how many are not kept
	listing uint32 // which list is the last
	again   bool   // it was listed for the sake of settle
}

// entryOf is what is known of an object whose facts need memory.
type entryOf struct {
	mark
	uid     types.UID
	version string
	size    int64
	kept    bool
	listed  uint32
}

// mark is a place in the order of the objects of a namespace: the oldest come first.
type mark struct {
	created int64 // in seconds
	name    string
}

func (m mark) compare(other mark) int {
	return cmp.Or(cmp.Compare(m.created, other.created), cmp.Compare(m.name, other.name))
}

// space is what a namespace needs and has.
type space struct {
	wanted, used int64
	objects      int
	over         int
	// cut, if there is one, is the first object of which nothing is kept.
	cut *mark
}

// NewAccounts returns the accounts of the objects of a kind, of which there are none.
func NewAccounts(kind string, share api.Share) *Accounts {
	return &Accounts{kind: kind, share: share, entries: map[name]*entryOf{}, spaces: map[unique.Handle[string]]*space{}}
}

// Admit reports whether the facts of the object are to be kept, which need as many bytes as size
// returns; nothing is said about an object that needs none. Of a version that was seen before,
// size is not called.
func (a *Accounts) Admit(m metav1.Object, size func() int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := name{unique.Make(m.GetNamespace()), m.GetName()}
	e := entryOf{mark: mark{m.GetCreationTimestamp().Unix(), key.name}, uid: m.GetUID(), version: m.GetResourceVersion()}
	had, there := a.entries[key]
	if there && had.uid == e.uid && had.version == e.version {
		e = *had
	} else {
		e.size = size()
	}
	mayStay := there && had.uid == e.uid && had.kept && e.size <= had.size
	if there {
		a.drop(key, had)
	}
	if e.size == 0 {
		a.leave(key.namespace)
		return true
	}
	s := a.spaces[key.namespace]
	if s == nil {
		s = &space{}
		a.spaces[key.namespace] = s
	}
	e.kept = s.allows(e.mark) && (mayStay || s.used+e.size <= a.share.Namespace && a.used+e.size <= a.share.Cluster)
	e.listed = a.listing
	a.entries[key] = &e
	s.objects++
	s.wanted += e.size
	if e.kept {
		s.used += e.size
		a.used += e.size
	} else {
		s.over++
		a.over++
	}
	return e.kept
}

func (s *space) allows(m mark) bool { return s.cut == nil || m.compare(*s.cut) < 0 }

// Forget forgets an object that was deleted.
func (a *Accounts) Forget(m metav1.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := name{unique.Make(m.GetNamespace()), m.GetName()}
	if e, there := a.entries[key]; there && e.uid == m.GetUID() { // another may have been made already
		a.drop(key, e)
		a.leave(key.namespace)
	}
}

// leave ends the space of a namespace without objects, and with it what it was denied.
func (a *Accounts) leave(namespace unique.Handle[string]) {
	if s := a.spaces[namespace]; s != nil && s.objects == 0 {
		delete(a.spaces, namespace)
	}
}

func (a *Accounts) drop(key name, e *entryOf) {
	s := a.spaces[key.namespace]
	a.release(s, e)
	if !e.kept {
		s.over--
		a.over--
	}
	s.wanted -= e.size
	s.objects--
	delete(a.entries, key)
}

func (a *Accounts) release(s *space, e *entryOf) {
	if e.kept {
		s.used -= e.size
		a.used -= e.size
	}
}

// begin says that all objects are about to be listed.
func (a *Accounts) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listing++
}

// end says that all objects have been listed since begin. It returns true if they have to be
// listed once more before anybody looks at them.
func (a *Accounts) end() (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, e := range a.entries {
		if e.listed != a.listing {
			a.drop(key, e)
			a.leave(key.namespace)
		}
	}
	a.again = a.settle() && !a.again
	return a.again
}

// unsettled returns true if the objects have to be listed, because others are to be kept.
func (a *Accounts) unsettled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settle()
}

// settle decides which objects are to be kept. Those that are not have no part in the share from
// then on. It returns true if what is kept differs.
func (a *Accounts) settle() (differs bool) {
	if a.over == 0 && a.used <= a.share.Cluster {
		for _, s := range a.spaces {
			s.cut = nil
		}
		return false
	}
	level := a.level()
	full := map[unique.Handle[string]][]*entryOf{}
	for key, e := range a.entries {
		s := a.spaces[key.namespace]
		if s.wanted > level {
			full[key.namespace] = append(full[key.namespace], e)
		} else if s.cut = nil; !e.kept {
			differs = true
		}
	}
	for namespace, entries := range full {
		differs = a.cut(a.spaces[namespace], entries, level) || differs
	}
	return differs
}

// cut decides what a namespace keeps that needs more than the level.
func (a *Accounts) cut(s *space, entries []*entryOf, level int64) (differs bool) {
	slices.SortFunc(entries, func(x, y *entryOf) int { return x.compare(y.mark) })
	s.cut = nil
	var total int64
	for _, e := range entries {
		if total += e.size; total > level && s.cut == nil {
			s.cut = &e.mark
		}
		allowed := s.cut == nil
		if differs = differs || e.kept != allowed; e.kept && !allowed {
			a.release(s, e)
			e.kept = false
			s.over++
			a.over++
		}
	}
	return differs
}

// level returns how many bytes a namespace may have. While there is not enough for all, an eighth
// is left, so that a namespace with little finds room at once.
func (a *Accounts) level() int64 {
	var wanted []int64
	var total int64
	for _, s := range a.spaces {
		w := min(s.wanted, a.share.Namespace)
		wanted = append(wanted, w)
		total += w
	}
	if total <= a.share.Cluster {
		return a.share.Namespace
	}
	slices.Sort(wanted)
	left := a.share.Cluster / 8 * 7
	for i, w := range wanted {
		rest := int64(len(wanted) - i)
		if w*rest > left {
			return left / rest
		}
		left -= w
	}
	return a.share.Namespace
}

var (
	memoryDesc = prometheus.NewDesc("servingcert_object_memory_bytes", "Bytes that are reserved for what is remembered of the objects of a kind; at most --object-memory.", []string{"kind"}, nil)
	overDesc   = prometheus.NewDesc("servingcert_objects_over_memory", "Objects of a kind for which there was no room in --object-memory, by namespace.", []string{"kind", "namespace"}, nil)
)

// Collector reports what is kept of the objects of several kinds.
type Collector []*Accounts

// Describe implements prometheus.Collector.
func (c Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- memoryDesc
	ch <- overDesc
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(ch chan<- prometheus.Metric) {
	for _, a := range c {
		a.collect(ch)
	}
}

func (a *Accounts) collect(ch chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, float64(a.used), a.kind)
	for namespace, s := range a.spaces {
		if s.over > 0 {
			ch <- prometheus.MustNewConstMetric(overDesc, prometheus.GaugeValue, float64(s.over), a.kind, namespace.Value())
		}
	}
}
