package wake

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func TestQueue(t *testing.T) {
	var q Queue
	add := func(class Class, pods ...string) {
		for _, pod := range pods {
			q.Add(types.NamespacedName{Namespace: pod[:1], Name: pod}, class)
		}
	}
	drain := func() (order []string) {
		for {
			pod, ok := q.Next()
			if !ok {
				return order
			}
			order = append(order, pod.Name)
		}
	}
	assert.Empty(t, drain())
	add(Routine, "a1", "a2", "a3", "a4", "b1", "b2", "c1")
	add(Urgent, "x1", "x2", "y1", "a3", "a4")
	add(Routine, "x2", "a1")
	add(First, "s1", "y1")
	assert.Equal(t, 11, q.Len())
	assert.Equal(t, []string{"s1", "y1", "x1", "a1", "a3", "b1", "x2", "c1", "a4", "a2", "b2"}, drain(), "servingcert's own first, then an urgent and a routine one in turn, and namespaces in turn")
	assert.Zero(t, q.Len())
	add(Routine, "a3", "b1")
	assert.Equal(t, []string{"a3", "b1"}, drain(), "it can be added again")
	for class := range q.turns {
		assert.Zero(t, q.turns[class].Len(), "nothing is left behind")
	}
}

// TestUrgentPodsOfATenantDelayOthersByOneEach: whoever asks for renewals again and again
// makes the routine of all others last twice as long, and no longer.
func TestUrgentPodsOfATenantDelayOthersByOneEach(t *testing.T) {
	var q Queue
	urgent := 0
	again := func() {
		urgent++
		q.Add(types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint(urgent)}, Urgent)
	}
	const others = 100
	for i := range others {
		q.Add(types.NamespacedName{Namespace: fmt.Sprint("other-", i), Name: "web"}, Routine)
	}
	again()
	for turns, left := 1, others; left > 0; turns++ {
		again()
		again()
		pod, ok := q.Next()
		require.True(t, ok)
		if pod.Namespace != "tenant" {
			left--
		}
		require.LessOrEqual(t, turns, 2*others)
	}
}

// Each pod comes out once for each time that it was added while it did not wait. Those of
// servingcert come first, and of the urgent and the others no class gets two turns while the
// other waits, and no namespace gets two turns of a class while another waits.
func TestPropertyOfTheQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		model, last := map[types.NamespacedName]Class{}, Routine
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				pod := types.NamespacedName{Namespace: fmt.Sprint("n", rapid.IntRange(0, 3).Draw(t, "namespace")), Name: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "pod"))}
				class := Class(rapid.IntRange(0, int(classes)-1).Draw(t, "class"))
				q.Add(pod, class)
				if had, ok := model[pod]; !ok || class < had {
					model[pod] = class
				}
			} else if pod, ok := q.Next(); ok {
				class, waited := model[pod]
				require.True(t, waited, "%s did not wait", pod)
				delete(model, pod)
				for other, c := range model {
					require.False(t, c < class && (c == First || last == class), "%s is more urgent than %s", other, pod)
					require.False(t, c > class && class != First && last == class, "%s had no turn before %s", other, pod)
				}
				if class != First {
					last = class
				}
			} else {
				require.Empty(t, model)
			}
			require.Len(t, model, q.Len())
		}
		left := map[Class]map[string]int{}
		for pod, class := range model {
			if left[class] == nil {
				left[class] = map[string]int{}
			}
			left[class][pod.Namespace]++
		}
		turn := map[Class]map[string]int{}
		for range len(model) {
			pod, ok := q.Next()
			require.True(t, ok)
			class := model[pod]
			if turn[class] == nil {
				turn[class] = map[string]int{}
			}
			for namespace, n := range left[class] {
				if namespace != pod.Namespace && n > 0 {
					require.LessOrEqual(t, turn[class][pod.Namespace], turn[class][namespace]+1, "%s again before %s", pod.Namespace, namespace)
				}
			}
			turn[class][pod.Namespace]++
			left[class][pod.Namespace]--
		}
		_, ok := q.Next()
		require.False(t, ok)
	})
}
