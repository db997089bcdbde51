package probe

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/fairqueue"
)

// Queue has the targets that wait to be dialled, and decides which is next when a worker is free.
// It shares the workers between namespaces:
//
//   - the next target is of the namespace with the fewest targets in progress, or of several the least recently served;
//   - a namespace leaves some workers free even if no other waits, so that a new one need not wait;
//   - the targets of a namespace are dialled in the order in which they were added;
//   - no two targets of a pod are in progress at once.
//
// So if n namespaces wait, each gets a worker after at most n/workers dials of others, rounded up.
// A Queue is not safe for concurrent use.
type Queue struct {
	pods    fairqueue.Queue[types.UID] // with targets that wait, but none in progress, by namespace
	known   map[types.UID]*podTargets  // of each pod
	targets map[Key]*Target            // waiting
}

// podTargets are the targets of a pod.
type podTargets struct {
	waiting    []Key // the next first
	inProgress *Key
}

// NewQueue returns an empty queue for that many workers.
func NewQueue(workers int) *Queue {
	return &Queue{
		pods:  fairqueue.Queue[types.UID]{PerTenant: max(1, workers-(workers+7)/8)},
		known: map[types.UID]*podTargets{}, targets: map[Key]*Target{},
	}
}

// Add adds the target, and reports whether it did. One that waits already is replaced and keeps its
// place. One that is in progress is not added: its answers are not known yet.
func (q *Queue) Add(v Target) bool {
	if waits, ok := q.targets[v.Key]; ok {
		*waits = v
		return false
	}
	of := q.known[v.Pod]
	if of == nil {
		of = &podTargets{}
		q.known[v.Pod] = of
	}
	if of.inProgress != nil && *of.inProgress == v.Key {
		return false
	}
	q.targets[v.Key] = &v
	of.waiting = append(of.waiting, v.Key)
	if of.inProgress == nil {
		q.pods.Add(v.Of.Namespace, v.Pod, 0)
	}
	return true
}

// Next returns the target to dial now; false if there is none. The caller must call Done
// afterwards.
func (q *Queue) Next() (Target, bool) {
	_, pod, _, ok := q.pods.Next()
	if !ok {
		return Target{}, false
	}
	of := q.known[pod]
	of.inProgress, of.waiting = &of.waiting[0], of.waiting[1:]
	v := *q.targets[*of.inProgress]
	delete(q.targets, v.Key)
	return v, true
}

// Done removes a target that was dialled.
func (q *Queue) Done(key Key) {
	of := q.known[key.Pod]
	if of == nil || of.inProgress == nil || *of.inProgress != key {
		return
	}
	of.inProgress = nil
	q.pods.Done(key.Of.Namespace)
	if len(of.waiting) > 0 {
		q.pods.Add(key.Of.Namespace, key.Pod, 0)
	} else {
		delete(q.known, key.Pod)
	}
}

// Len returns the number of targets that wait.
func (q *Queue) Len() int { return len(q.targets) }
