// Package fairqueue decides which tenant is next if many tenants share workers, so that the amount of one
// tenant's work does not delay the others.
package fairqueue

import (
	"cmp"
	"container/heap"
)

// Queue holds items of work, each of which belongs to a tenant.
//
// The next item belongs to the tenant with the fewest items in progress. If there are several such
// tenants, it belongs to the one whose last turn was the longest ago. A tenant may occupy up to
// PerTenant workers, but only while no other tenant has work.
//
// The items of a tenant are ordered by priority, highest first, and then by the order in which
// they were added. A priority above zero also takes precedence over fairness between tenants.
//
// The zero value is ready to use. It is not safe for concurrent use.
type Queue[K comparable] struct {
	// PerTenant is the largest number of items of a tenant in progress; 0: any number. It is set
	// before the first Add.
	PerTenant int

	tenants map[string]*tenant[K] // tenants with items that wait or are in progress
	order   heapOf[*tenant[K]]    // tenants with waiting items
	waiting int
	count   uint64 // a sequence number
}

// tenant is a tenant with work.
type tenant[K comparable] struct {
	name    string
	places  heapOf[*place[K]] // waiting items
	byKey   map[K]*place[K]
	most    int // Queue.PerTenant
	working int
	since   uint64 // when it began to wait for a turn
	at      int    // index in Queue.order
}

// place is a waiting item.
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

// full reports whether the tenant has PerTenant items in progress.
func (t *tenant[K]) full() bool { return t.most > 0 && t.working >= t.most }

// urgency returns the priority of the tenant's next item, at least zero.
func (t *tenant[K]) urgency() int { return max(0, t.places[0].priority) }

func (t *tenant[K]) moved(to int) { t.at = to }

func (p *place[K]) order(other *place[K]) int {
	return cmp.Or(-cmp.Compare(p.priority, other.priority), cmp.Compare(p.since, other.since))
}

func (p *place[K]) moved(to int) { p.at = to }

// Add adds an item of a tenant. An item that already waits gets the higher of both priorities,
// and if its priority changes, the last place among the items with that priority.
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

// Raise raises the priority of a waiting item, and reports whether the item waits.
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

// Remove removes a waiting item.
func (q *Queue[K]) Remove(of string, key K) {
	if t := q.tenants[of]; t != nil && t.byKey[key] != nil {
		q.take(t, t.byKey[key])
	}
}

// take removes a place, and the tenant if it has no work left.
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

// Next takes the next item, which is in progress until Done. It returns false if no item can start.
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

// Done marks an item of the tenant as no longer in progress.
func (q *Queue[K]) Done(of string) {
	t := q.tenants[of]
	t.working--
	if len(t.places) > 0 {
		heap.Fix(&q.order, t.at)
	}
	q.forget(t)
}

// Ready reports whether Next would return an item.
func (q *Queue[K]) Ready() bool { return len(q.order) > 0 && !q.order[0].full() }

// Len returns the number of waiting items.
func (q *Queue[K]) Len() int { return q.waiting }

func (q *Queue[K]) next() uint64 {
	q.count++
	return q.count
}
