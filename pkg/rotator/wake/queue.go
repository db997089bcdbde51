package wake

import "k8s.io/apimachinery/pkg/types"

// Queue holds the pods that wait to be woken. Those of servingcert come first. Then an
// urgent and a routine one come in turn: a tenant decides what is urgent of its own, by
// asking for renewals, and must not hold up what others have due. Within a class one of each
// namespace comes in turn. The zero Queue is empty. It is not safe for concurrent use.
type Queue struct {
	waiting map[types.NamespacedName]Class
	turns   [classes]turns
	last    Class // of the pod that came last, but for First
}

// turns are the pods of one class.
type turns struct {
	namespaces []string // those with pods, the next first
	pods       map[string][]string
}

// Add adds the pod. One that waits already does not wait twice, and waits in the
// more urgent of its classes.
func (q *Queue) Add(pod types.NamespacedName, class Class) {
	if had, ok := q.waiting[pod]; ok && had <= class {
		return
	}
	if q.waiting == nil {
		q.waiting = map[types.NamespacedName]Class{}
	}
	q.waiting[pod] = class
	t := &q.turns[class]
	if len(t.pods[pod.Namespace]) == 0 {
		t.namespaces = append(t.namespaces, pod.Namespace)
	}
	if t.pods == nil {
		t.pods = map[string][]string{}
	}
	t.pods[pod.Namespace] = append(t.pods[pod.Namespace], pod.Name)
}

// Next removes the pod whose turn it is; false if none waits.
func (q *Queue) Next() (types.NamespacedName, bool) {
	order := [classes]Class{First, Urgent, Routine}
	if q.last == Urgent {
		order = [classes]Class{First, Routine, Urgent}
	}
	for _, class := range order {
		// What has become more urgent since is passed over.
		waits := func(pod types.NamespacedName) bool { had, ok := q.waiting[pod]; return ok && had == class }
		if pod, ok := q.turns[class].next(waits); ok {
			delete(q.waiting, pod)
			if class != First {
				q.last = class
			}
			return pod, true
		}
	}
	return types.NamespacedName{}, false
}

// Len returns how many pods wait.
func (q *Queue) Len() int { return len(q.waiting) }

// next removes the first pod that waits of the namespace whose turn it is; false if
// there is none.
func (t *turns) next(waits func(types.NamespacedName) bool) (types.NamespacedName, bool) {
	for len(t.namespaces) > 0 {
		namespace := t.namespaces[0]
		for left := t.pods[namespace]; len(left) > 0; {
			pod := types.NamespacedName{Namespace: namespace, Name: left[0]}
			left = left[1:]
			if !waits(pod) {
				continue
			}
			t.namespaces = t.namespaces[1:]
			if len(left) > 0 {
				t.pods[namespace] = left
				t.namespaces = append(t.namespaces, namespace)
			} else {
				delete(t.pods, namespace)
			}
			return pod, true
		}
		t.namespaces = t.namespaces[1:]
		delete(t.pods, namespace)
	}
	return types.NamespacedName{}, false
}
