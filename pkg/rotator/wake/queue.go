package wake

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/fair"
)

// Queue holds the pods that wait to be woken. Those of servingcert come first. Then an
// urgent and a routine one come in turn: a tenant decides what is urgent of its own, by
// asking for renewals, and must not hold up what others have due. Within a class one of each
// namespace comes in turn. The zero Queue is empty. It is not safe for concurrent use.
type Queue struct {
	waiting map[types.NamespacedName]Class
	turns   [classes]fair.Queue[string] // names of pods, by namespace
	last    Class                       // of the pod that came last, but for First
}

// Add adds the pod. One that waits already does not wait twice, and waits in the
// more urgent of its classes.
func (q *Queue) Add(pod types.NamespacedName, class Class) {
	had, waits := q.waiting[pod]
	if waits && had <= class {
		return
	}
	if waits {
		q.turns[had].Remove(pod.Namespace, pod.Name)
	}
	if q.waiting == nil {
		q.waiting = map[types.NamespacedName]Class{}
	}
	q.waiting[pod] = class
	q.turns[class].Add(pod.Namespace, pod.Name, 0)
}

// Next removes the pod whose turn it is; false if none waits.
func (q *Queue) Next() (types.NamespacedName, bool) {
	order := [classes]Class{First, Urgent, Routine}
	if q.last == Urgent {
		order = [classes]Class{First, Routine, Urgent}
	}
	for _, class := range order {
		namespace, name, _, ok := q.turns[class].Next()
		if !ok {
			continue
		}
		q.turns[class].Done(namespace)
		if class != First {
			q.last = class
		}
		pod := types.NamespacedName{Namespace: namespace, Name: name}
		delete(q.waiting, pod)
		return pod, true
	}
	return types.NamespacedName{}, false
}

// Len returns how many pods wait.
func (q *Queue) Len() int { return len(q.waiting) }
