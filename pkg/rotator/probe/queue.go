package probe

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/fairqueue"
)

// Queue holds the visits that wait, and says which of them begins when a worker is free.
// It shares the workers between namespaces:
//
//   - the next visit is one of the namespace with the fewest visits under way; of
//     several, the one whose turn was longest ago;
//   - some workers are left free by a namespace that has all the others, so that another
//     one that comes need not wait;
//   - of a namespace, visits begin in the order in which they were added;
//   - no two visits of a pod are under way at once.
//
// A namespace that has visits waiting, of n that have, thus has a worker after n/workers
// visits of others, rounded up. It is not safe for concurrent use.
type Queue struct {
	pods   fairqueue.Queue[types.UID] // with visits that wait, but none under way, by namespace
	known  map[types.UID]*visits      // of each pod
	visits map[Key]*Visit             // that wait
}

// visits are those of a pod.
type visits struct {
	waiting  []Key // the next first
	underWay *Key
}

// NewQueue returns an empty queue for that many workers.
func NewQueue(workers int) *Queue {
	return &Queue{
		pods:  fairqueue.Queue[types.UID]{PerTenant: max(1, workers-(workers+7)/8)},
		known: map[types.UID]*visits{}, visits: map[Key]*Visit{},
	}
}

// Add adds the visit, and reports whether it did. One that waits already keeps its place
// and is replaced. One that is under way is not added: who asks does not know yet what the
// pod answers.
func (q *Queue) Add(v Visit) bool {
	if waits, ok := q.visits[v.Key]; ok {
		*waits = v
		return false
	}
	of := q.known[v.Pod]
	if of == nil {
		of = &visits{}
		q.known[v.Pod] = of
	}
	if of.underWay != nil && *of.underWay == v.Key {
		return false
	}
	q.visits[v.Key] = &v
	of.waiting = append(of.waiting, v.Key)
	if of.underWay == nil {
		q.pods.Add(v.Of.Namespace, v.Pod, 0)
	}
	return true
}

// Next returns the visit that begins now; false if none may. Done must be called when it
// has ended.
func (q *Queue) Next() (Visit, bool) {
	_, pod, _, ok := q.pods.Next()
	if !ok {
		return Visit{}, false
	}
	of := q.known[pod]
	of.underWay, of.waiting = &of.waiting[0], of.waiting[1:]
	v := *q.visits[*of.underWay]
	delete(q.visits, v.Key)
	return v, true
}

// Done takes in that a visit has ended.
func (q *Queue) Done(key Key) {
	of := q.known[key.Pod]
	if of == nil || of.underWay == nil || *of.underWay != key {
		return
	}
	of.underWay = nil
	q.pods.Done(key.Of.Namespace)
	if len(of.waiting) > 0 {
		q.pods.Add(key.Of.Namespace, key.Pod, 0)
	} else {
		delete(q.known, key.Pod)
	}
}

// Len returns how many visits wait.
func (q *Queue) Len() int { return len(q.visits) }
