package probe

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
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
	most       int // visits under way of one namespace
	turn       uint64
	namespaces map[string]*share
	visits     map[Key]*Visit // that wait
}

// share is what a Queue knows of a namespace with visits that wait or are under way.
type share struct {
	turn     uint64 // when a visit of it began last, or it came
	underWay int
	// pods are those with visits that wait, but none under way, in their order. waiting
	// are the visits that wait of each pod.
	pods    []types.UID
	waiting map[types.UID][]Key
	busy    map[types.UID]Key // the visit that is under way
}

// NewQueue returns an empty queue for that many workers.
func NewQueue(workers int) *Queue {
	return &Queue{most: max(1, workers-(workers+7)/8), namespaces: map[string]*share{}, visits: map[Key]*Visit{}}
}

// Add adds the visit, and reports whether it did. One that waits already keeps its place
// and is replaced. One that is under way is not added: who asks does not know yet what the
// pod answers.
func (q *Queue) Add(v Visit) bool {
	if waits, ok := q.visits[v.Key]; ok {
		*waits = v
		return false
	}
	s := q.namespaces[v.Secret.Namespace]
	if s == nil {
		q.turn++
		s = &share{turn: q.turn, waiting: map[types.UID][]Key{}, busy: map[types.UID]Key{}}
		q.namespaces[v.Secret.Namespace] = s
	}
	busy, isBusy := s.busy[v.Pod]
	if isBusy && busy == v.Key {
		return false
	}
	q.visits[v.Key] = &v
	if len(s.waiting[v.Pod]) == 0 && !isBusy {
		s.pods = append(s.pods, v.Pod)
	}
	s.waiting[v.Pod] = append(s.waiting[v.Pod], v.Key)
	return true
}

// Next returns the visit that begins now; false if none may. Done must be called when it
// has ended.
func (q *Queue) Next() (Visit, bool) {
	var next *share
	for _, s := range q.namespaces {
		if len(s.pods) == 0 || s.underWay >= q.most {
			continue
		}
		if next == nil || cmp.Or(cmp.Compare(s.underWay, next.underWay), cmp.Compare(s.turn, next.turn)) < 0 {
			next = s
		}
	}
	if next == nil {
		return Visit{}, false
	}
	q.turn++
	key := next.begin(q.turn)
	v := *q.visits[key]
	delete(q.visits, key)
	return v, true
}

// begin returns the first visit of the share.
func (s *share) begin(turn uint64) Key {
	pod := s.pods[0]
	s.pods = s.pods[1:]
	key := s.waiting[pod][0]
	if s.waiting[pod] = s.waiting[pod][1:]; len(s.waiting[pod]) == 0 {
		delete(s.waiting, pod)
	}
	s.busy[pod] = key
	s.underWay++
	s.turn = turn
	return key
}

// Done takes in that a visit has ended.
func (q *Queue) Done(key Key) {
	s := q.namespaces[key.Secret.Namespace]
	if s == nil || s.busy[key.Pod] != key {
		return
	}
	s.underWay--
	delete(s.busy, key.Pod)
	switch {
	case len(s.waiting[key.Pod]) > 0:
		s.pods = append(s.pods, key.Pod)
	case len(s.waiting) == 0 && s.underWay == 0:
		delete(q.namespaces, key.Secret.Namespace)
	}
}

// Len returns how many visits wait.
func (q *Queue) Len() int { return len(q.visits) }
