package probe

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// targetOf is a target: "a1" is pod a1 in namespace a; "a1/x" is the same pod for Secret x.
func targetOf(name string) Target {
	pod, secret := name, "web-tls"
	if len(name) > 3 {
		pod, secret = name[:2], name[3:]
	}
	return Target{Key: Key{Of: pods.NamespacedKey{Namespace: name[:1], Key: pods.SecretKey(secret)}, Pod: types.UID(pod)}, Name: name}
}

func TestQueue(t *testing.T) {
	tests := []struct {
		name    string
		workers int
		// steps: "+a1" adds, "-a1" calls Done, and others are results of Next, "" for none.
		steps []string
	}{
		{"nothing waits", 4, []string{""}},
		{"in the order of a namespace", 4, []string{"+a2", "+a1", "+a3", "a2", "a1", "a3", ""}},
		{"namespaces in turn", 8, []string{"+a1", "+a2", "+a3", "+b1", "+b2", "+c1", "a1", "b1", "c1", "a2", "b2", "a3", ""}},
		{"fewest under way first", 8, []string{"+a1", "+a2", "+a3", "a1", "a2", "+b1", "+b2", "+b3", "b1", "b2", "a3", "b3", ""}},
		{"whose turn was longest ago", 2, []string{"+a1", "+a2", "+b1", "+b2", "a1", "-a1", "b1", "-b1", "a2", "-a2", "b2", "-b2", ""}},
		{"one namespace leaves a worker free", 2, []string{"+a1", "+a2", "a1", "", "+b1", "b1", "-a1", "a2"}},
		{"one namespace has nearly all", 32, append(append(adds("a", 30), nexts("a", 28)...), "", "+b1", "b1", "-a0", "a28")},
		{"one worker", 1, []string{"+a1", "+b1", "a1", "-a1", "b1", "-b1", ""}},
		{"a pod for two Secrets", 8, []string{"+a1", "+a1/x", "+a2", "a1", "a2", "", "-a1", "a1/x", ""}},
		{"a visit that waits twice", 8, []string{"+a1", "+a2", "+a1", "a1", "a2", ""}},
		{"a visit that is under way", 8, []string{"+a1", "a1", "+a1", "", "-a1", "", "+a1", "a1", "-a1", ""}},
		{"the end of no visit", 8, []string{"-a1", "+a1", "-a1", "a1", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewQueue(tt.workers)
			for i, step := range tt.steps {
				switch {
				case step != "" && step[0] == '+':
					q.Add(targetOf(step[1:]))
				case step != "" && step[0] == '-':
					q.Done(targetOf(step[1:]).Key)
				default:
					v, ok := q.Next()
					require.Equal(t, step, v.Name, "step %d", i)
					require.Equal(t, step != "", ok)
				}
			}
		})
	}
}

func adds(namespace string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("+", namespace, i))
	}
	return out
}

func nexts(namespace string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(namespace, i))
	}
	return out
}

func TestWaitingTargetIsReplaced(t *testing.T) {
	q := NewQueue(4)
	v := targetOf("a1")
	assert.True(t, q.Add(v))
	v.Ports = []uint16{8443}
	assert.False(t, q.Add(v))
	assert.Equal(t, 1, q.Len())
	got, ok := q.Next()
	assert.True(t, ok)
	assert.Equal(t, v, got)
}

// Each target is dialled once for each Add while it was unknown, never two of a pod at once. A
// worker is free only if no namespace may have it. Each waiting target is passed over a bounded
// number of times.
func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 9).Draw(t, "workers")
		q, waiting, inProgress := NewQueue(workers), map[Key]bool{}, map[Key]bool{}
		passed := map[string]int{} // how many visits of others began since one waits that may begin
		count := func(of map[Key]bool, namespace string) (n int) {
			for key := range of {
				if key.Of.Namespace == namespace {
					n++
				}
			}
			return n
		}
		ready := func(key Key) bool {
			for other := range inProgress {
				if other.Pod == key.Pod {
					return false
				}
			}
			return waiting[key] && count(inProgress, key.Of.Namespace) < q.pods.PerTenant
		}
		begin := func() bool {
			v, ok := q.Next()
			could := map[string]bool{}
			for key := range waiting {
				if ready(key) {
					could[key.Of.Namespace] = true
				}
			}
			require.Equal(t, len(could) > 0, ok)
			if !ok {
				return false
			}
			require.True(t, ready(v.Key), "%v", v.Key)
			for namespace := range could {
				require.LessOrEqual(t, count(inProgress, v.Of.Namespace), count(inProgress, namespace))
				if passed[namespace]++; count(inProgress, namespace) == 0 {
					require.LessOrEqual(t, passed[namespace], 4, "of four namespaces")
				}
			}
			for namespace := range passed {
				if !could[namespace] || namespace == v.Of.Namespace || count(inProgress, namespace) > 0 {
					passed[namespace] = 0
				}
			}
			delete(waiting, v.Key)
			inProgress[v.Key] = true
			return true
		}
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				namespace := string(rune('a' + rapid.IntRange(0, 3).Draw(t, "namespace")))
				v := targetOf(fmt.Sprintf("%s%d/%d", namespace, rapid.IntRange(0, 4).Draw(t, "pod"), rapid.IntRange(0, 1).Draw(t, "secret")))
				require.Equal(t, !waiting[v.Key] && !inProgress[v.Key], q.Add(v))
				if !inProgress[v.Key] {
					waiting[v.Key] = true
				}
			case 1:
				if len(inProgress) < workers {
					begin()
				}
			default:
				for key := range inProgress {
					if rapid.Bool().Draw(t, "ends") {
						delete(inProgress, key)
						q.Done(key)
						break
					}
				}
			}
			require.Equal(t, len(waiting), q.Len())
		}
		for len(waiting)+len(inProgress) > 0 { // nothing is lost
			for len(inProgress) < workers && begin() {
			}
			require.NotEmpty(t, inProgress)
			for key := range inProgress {
				delete(inProgress, key)
				q.Done(key)
				break
			}
		}
		require.Empty(t, q.known, "nothing is left behind")
		require.Empty(t, q.targets)
	})
}

// One namespace has 500 pods that each take the maximum time. Others arrive while it has all its
// workers. The unit of time is one dial.
func TestTarpitNamespaceDelaysOthersBriefly(t *testing.T) {
	const workers, others = 32, 40
	q := NewQueue(workers)
	for i := range 500 {
		q.Add(Target{Key: Key{Of: pods.NamespacedKey{Namespace: "hostile"}, Pod: types.UID(fmt.Sprint("h", i))}})
	}
	begun := map[string]int{}
	inProgress := 0
	for turn := range 30 {
		if turn == 5 {
			for i := range others {
				q.Add(Target{Key: Key{Of: pods.NamespacedKey{Namespace: fmt.Sprint("n", i)}, Pod: types.UID(fmt.Sprint("p", i))}})
			}
		}
		var ended []Key
		for inProgress = 0; inProgress < workers; inProgress++ {
			v, ok := q.Next()
			if !ok {
				break
			}
			if _, ok := begun[v.Of.Namespace]; !ok {
				begun[v.Of.Namespace] = turn
			}
			ended = append(ended, v.Key)
		}
		if turn < 5 {
			assert.Equal(t, 28, inProgress, "alone it has nearly all workers")
		}
		for _, key := range ended {
			q.Done(key)
		}
	}
	for i := range others {
		waited := begun[fmt.Sprint("n", i)] - 5
		assert.Less(t, waited, int(math.Ceil(float64(others+1)/workers)))
	}
}
