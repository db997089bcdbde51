package signer

import (
	"cmp"
	"container/heap"

	"k8s.io/apimachinery/pkg/types"
)

// Priorities of a Secret that waits for its turn.
const (
	// PriorityOwn is that of servingcert's own Secrets after a change of the CA.
	PriorityOwn = 1
	// PriorityAwaited is that of a Secret that somebody may wait for: its Service was made or
	// changed, or the Secret was.
	PriorityAwaited = 0
	// PriorityMissing is that of a Secret that was missing when the process started, or began to
	// lead. Somebody waits for it, and has for a while: what happens now comes first, so that
	// what thousands of such Secrets cause is not put off until the last of them is done.
	PriorityMissing = -50
	// PriorityRenewal is that of a Secret that is looked at since its time has come or the CA
	// has changed. What it holds keeps working meanwhile. It equals the priority that
	// controller-runtime gives to what is there already when a process starts.
	PriorityRenewal = -100
)

// Turns holds the Secrets that are to be worked on, and decides which is next, so that
// no namespace delays another by how many Secrets it has or how often they change.
//
// The next Secret is one of the namespace of which the fewest are being worked on. Of
// several such namespaces it is the one that has waited longest since its last turn. A
// namespace may so occupy all workers, but only while no other one has work.
//
// Within a namespace, Secrets of a higher priority come first, and then those that were
// added first. A priority above zero goes before the share of a namespace.
//
// The zero value is ready to use. It is not safe for concurrent use.
type Turns struct {
	lines   map[string]*line // by namespace; those with Secrets that wait or are worked on
	order   heapOf[*line]    // those with Secrets that wait
	waiting int
	count   uint64 // of everything that got a place
}

// line is the Secrets of one namespace.
type line struct {
	namespace string
	secrets   heapOf[*place] // that wait
	byName    map[string]*place
	working   int    // how many are being worked on
	since     uint64 // since when it has waited for a turn
	at        int    // index in Turns.order
}

// place is a Secret that waits.
type place struct {
	name     string
	priority int
	since    uint64
	at       int // index in line.secrets
}

// order returns a negative number if a turn of l comes before one of other.
func (l *line) order(other *line) int {
	return cmp.Or(
		-cmp.Compare(l.urgency(), other.urgency()),
		cmp.Compare(l.working, other.working),
		cmp.Compare(l.since, other.since),
	)
}

// urgency is the priority of the first Secret, if that is above zero.
func (l *line) urgency() int { return max(0, l.secrets[0].priority) }

func (l *line) moved(to int) { l.at = to }

func (p *place) order(other *place) int {
	return cmp.Or(-cmp.Compare(p.priority, other.priority), cmp.Compare(p.since, other.since))
}

func (p *place) moved(to int) { p.at = to }

// Add adds a Secret. One that waits already gets the higher of both priorities, and
// if that is a new one, the last place among those that have it.
func (t *Turns) Add(key types.NamespacedName, priority int) {
	if t.Raise(key, priority) {
		return
	}
	l := t.lines[key.Namespace]
	if l == nil {
		l = &line{namespace: key.Namespace, byName: map[string]*place{}}
		if t.lines == nil {
			t.lines = map[string]*line{}
		}
		t.lines[key.Namespace] = l
	}
	p := &place{name: key.Name, priority: priority, since: t.next()}
	l.byName[key.Name] = p
	heap.Push(&l.secrets, p)
	t.waiting++
	if len(l.secrets) == 1 {
		l.since = t.next()
		heap.Push(&t.order, l)
		return
	}
	heap.Fix(&t.order, l.at)
}

// Raise gives a Secret that waits a higher priority, and reports whether it waits.
func (t *Turns) Raise(key types.NamespacedName, priority int) bool {
	l := t.lines[key.Namespace]
	if l == nil || l.byName[key.Name] == nil {
		return false
	}
	if p := l.byName[key.Name]; priority > p.priority {
		p.priority, p.since = priority, t.next()
		heap.Fix(&l.secrets, p.at)
		heap.Fix(&t.order, l.at)
	}
	return true
}

// Next takes the next Secret, which is being worked on until Done. It must not be
// called if none waits.
func (t *Turns) Next() (key types.NamespacedName, priority int) {
	l := t.order[0]
	p := heap.Pop(&l.secrets).(*place)
	delete(l.byName, p.name)
	t.waiting--
	l.working++
	l.since = t.next()
	if len(l.secrets) == 0 {
		heap.Pop(&t.order)
	} else {
		heap.Fix(&t.order, l.at)
	}
	return types.NamespacedName{Namespace: l.namespace, Name: p.name}, p.priority
}

// Done says that a Secret of Next is no longer being worked on.
func (t *Turns) Done(key types.NamespacedName) {
	l := t.lines[key.Namespace]
	l.working--
	switch {
	case len(l.secrets) > 0:
		heap.Fix(&t.order, l.at)
	case l.working == 0:
		delete(t.lines, key.Namespace)
	}
}

// Len returns how many Secrets wait.
func (t *Turns) Len() int { return t.waiting }

func (t *Turns) next() uint64 {
	t.count++
	return t.count
}

// ordered is an element of a heap. order returns a negative number if it comes before the
// other one; moved tells it its index.
type ordered[E any] interface {
	order(other E) int
	moved(to int)
}

var (
	_ ordered[*line]  = (*line)(nil)
	_ ordered[*place] = (*place)(nil)
)

// heapOf is a heap.Interface.
type heapOf[E ordered[E]] []E

func (h heapOf[E]) Len() int           { return len(h) }
func (h heapOf[E]) Less(i, j int) bool { return h[i].order(h[j]) < 0 }

func (h heapOf[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].moved(i)
	h[j].moved(j)
}

func (h *heapOf[E]) Push(x any) {
	e := x.(E)
	e.moved(len(*h))
	*h = append(*h, e)
}

func (h *heapOf[E]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	clear((*h)[last:]) // so that it is not kept
	*h = (*h)[:last]
	return e
}
