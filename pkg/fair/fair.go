// Package fair decides who is next where many tenants want the same workers, so that no tenant
// delays another by how much it has to do.
package fair

import (
	"cmp"
	"container/heap"
)

// Queue holds what is to be worked on, each thing under the tenant that it belongs to.
//
// The next thing is one of the tenant of which the fewest are being worked on. Of several such
// tenants it is the one that has waited longest since its last turn. A tenant may so occupy as
// many workers as PerTenant permits, but only while no other one has work.
//
// Of a tenant, things of a higher priority come first, and then those that were added first. A
// priority above zero goes before the share of a tenant.
//
// The zero value is ready to use. It is not safe for concurrent use.
type Queue[K comparable] struct {
	// PerTenant is how many things of a tenant are worked on at once; 0: any number. It is set
	// before the first Add.
	PerTenant int

	tenants map[string]*tenant[K] // those of which something waits or is worked on
	order   heapOf[*tenant[K]]    // those of which something waits
	waiting int
	count   uint64 // of everything that got a place
}

// tenant is whose turn it may be.
type tenant[K comparable] struct {
	name    string
	places  heapOf[*place[K]] // what waits
	byKey   map[K]*place[K]
	most    int // Queue.PerTenant
	working int
	since   uint64 // since when it has waited for a turn
	at      int    // index in Queue.order
}

// place is something that waits.
type place[K comparable] struct {
	key      K
	priority int
	since    uint64
	at       int // index in tenant.places
}

// order returns a negative number if a turn of t comes before one of other.
func (t *tenant[K]) order(other *tenant[K]) int {
	if t.full() != other.full() {
		if t.full() {
			return 1
		}
		return -1
	}
	return cmp.Or(
		-cmp.Compare(t.urgency(), other.urgency()),
		cmp.Compare(t.working, other.working),
		cmp.Compare(t.since, other.since),
	)
}

// full reports whether nothing more of the tenant may be worked on.
func (t *tenant[K]) full() bool { return t.most > 0 && t.working >= t.most }

// urgency is the priority of what is next of the tenant, if that is above zero.
func (t *tenant[K]) urgency() int { return max(0, t.places[0].priority) }

func (t *tenant[K]) moved(to int) { t.at = to }

func (p *place[K]) order(other *place[K]) int {
	return cmp.Or(-cmp.Compare(p.priority, other.priority), cmp.Compare(p.since, other.since))
}

func (p *place[K]) moved(to int) { p.at = to }

// Add adds a thing of a tenant. One that waits already gets the higher of both priorities, and
// if that is a new one, the last place among those that have it.
func (q *Queue[K]) Add(of string, key K, priority int) {
	if q.Raise(of, key, priority) {
		return
	}
	t := q.tenants[of]
	if t == nil {
		t = &tenant[K]{name: of, byKey: map[K]*place[K]{}, most: q.PerTenant}
		if q.tenants == nil {
			q.tenants = map[string]*tenant[K]{}
		}
		q.tenants[of] = t
	}
	p := &place[K]{key: key, priority: priority, since: q.next()}
	t.byKey[key] = p
	heap.Push(&t.places, p)
	q.waiting++
	if len(t.places) == 1 {
		t.since = q.next()
		heap.Push(&q.order, t)
		return
	}
	heap.Fix(&q.order, t.at)
}

// Raise gives a thing that waits a higher priority, and reports whether it waits.
func (q *Queue[K]) Raise(of string, key K, priority int) bool {
	t := q.tenants[of]
	if t == nil || t.byKey[key] == nil {
		return false
	}
	if p := t.byKey[key]; priority > p.priority {
		p.priority, p.since = priority, q.next()
		heap.Fix(&t.places, p.at)
		heap.Fix(&q.order, t.at)
	}
	return true
}

// Remove takes a thing out that waits.
func (q *Queue[K]) Remove(of string, key K) {
	if t := q.tenants[of]; t != nil && t.byKey[key] != nil {
		q.take(t, t.byKey[key])
	}
}

// take removes a place, and the tenant if it has nothing left.
func (q *Queue[K]) take(t *tenant[K], p *place[K]) {
	heap.Remove(&t.places, p.at)
	delete(t.byKey, p.key)
	q.waiting--
	if len(t.places) > 0 {
		heap.Fix(&q.order, t.at)
		return
	}
	heap.Remove(&q.order, t.at)
	q.forget(t)
}

// forget removes a tenant that has no work.
func (q *Queue[K]) forget(t *tenant[K]) {
	if t.working == 0 && len(t.places) == 0 {
		delete(q.tenants, t.name)
	}
}

// Next takes the next thing, which is being worked on until Done. It returns false if nothing
// may be worked on.
func (q *Queue[K]) Next() (of string, key K, priority int, ok bool) {
	if !q.Ready() {
		return "", key, 0, false
	}
	t := q.order[0]
	p := t.places[0]
	t.working++
	t.since = q.next()
	q.take(t, p)
	return t.name, p.key, p.priority, true
}

// Done says that something of the tenant is no longer being worked on.
func (q *Queue[K]) Done(of string) {
	t := q.tenants[of]
	t.working--
	if len(t.places) > 0 {
		heap.Fix(&q.order, t.at)
	}
	q.forget(t)
}

// Ready reports whether Next would return something.
func (q *Queue[K]) Ready() bool { return len(q.order) > 0 && !q.order[0].full() }

// Len returns how many things wait.
func (q *Queue[K]) Len() int { return q.waiting }

func (q *Queue[K]) next() uint64 {
	q.count++
	return q.count
}
