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

// visitOf is one of a pod, for a Secret: "a1" is pod a1 in namespace a; "a1/x" is the same
// for Secret x.
func visitOf(name string) Visit {
	pod, secret := name, "web-tls"
	if len(name) > 3 {
		pod, secret = name[:2], name[3:]
	}
	return Visit{Key: Key{Of: pods.NamespacedKey{Namespace: name[:1], Key: pods.SecretKey(secret)}, Pod: types.UID(pod)}, Name: name}
}

func TestQueueOfVisits(t *testing.T) {
	tests := []struct {
		name    string
		workers int
		// steps: "+a1" adds, "-a1" ends, and anything else is what Next returns, "" for
		// none.
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
					q.Add(visitOf(step[1:]))
				case step != "" && step[0] == '-':
					q.Done(visitOf(step[1:]).Key)
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

func TestAVisitThatWaitsIsReplaced(t *testing.T) {
	q := NewQueue(4)
	v := visitOf("a1")
	assert.True(t, q.Add(v))
	v.Ports = []uint16{8443}
	assert.False(t, q.Add(v))
	assert.Equal(t, 1, q.Len())
	got, ok := q.Next()
	assert.True(t, ok)
	assert.Equal(t, v, got)
}

// Each visit begins once for each time that it was added while it was not known, never
// two of a pod at once; a worker is free only if no namespace may have it; and whoever
// waits is passed over a bounded number of times.
func TestPropertyOfTheQueueOfVisits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 9).Draw(t, "workers")
		q, waiting, underWay := NewQueue(workers), map[Key]bool{}, map[Key]bool{}
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
			for other := range underWay {
				if other.Pod == key.Pod {
					return false
				}
			}
			return waiting[key] && count(underWay, key.Of.Namespace) < q.pods.PerTenant
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
				require.LessOrEqual(t, count(underWay, v.Of.Namespace), count(underWay, namespace))
				if passed[namespace]++; count(underWay, namespace) == 0 {
					require.LessOrEqual(t, passed[namespace], 4, "of four namespaces")
				}
			}
			for namespace := range passed {
				if !could[namespace] || namespace == v.Of.Namespace || count(underWay, namespace) > 0 {
					passed[namespace] = 0
				}
			}
			delete(waiting, v.Key)
			underWay[v.Key] = true
			return true
		}
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				namespace := string(rune('a' + rapid.IntRange(0, 3).Draw(t, "namespace")))
				v := visitOf(fmt.Sprintf("%s%d/%d", namespace, rapid.IntRange(0, 4).Draw(t, "pod"), rapid.IntRange(0, 1).Draw(t, "secret")))
				require.Equal(t, !waiting[v.Key] && !underWay[v.Key], q.Add(v))
				if !underWay[v.Key] {
					waiting[v.Key] = true
				}
			case 1:
				if len(underWay) < workers {
					begin()
				}
			default:
				for key := range underWay {
					if rapid.Bool().Draw(t, "ends") {
						delete(underWay, key)
						q.Done(key)
						break
					}
				}
			}
			require.Equal(t, len(waiting), q.Len())
		}
		for len(waiting)+len(underWay) > 0 { // nothing is lost
			for len(underWay) < workers && begin() {
			}
			require.NotEmpty(t, underWay)
			for key := range underWay {
				delete(underWay, key)
				q.Done(key)
				break
			}
		}
		require.Empty(t, q.known, "nothing is left behind")
		require.Empty(t, q.visits)
	})
}

// One namespace with 500 pods that each take as long as a visit may, and others that
// come while it has all the workers that it may have: time is in visits of that length.
func TestANamespaceOfTarpitsDelaysNobodyForLong(t *testing.T) {
	const workers, others = 32, 40
	q := NewQueue(workers)
	for i := range 500 {
		q.Add(Visit{Key: Key{Of: pods.NamespacedKey{Namespace: "hostile"}, Pod: types.UID(fmt.Sprint("h", i))}})
	}
	begun := map[string]int{}
	underWay := 0
	for turn := range 30 {
		if turn == 5 {
			for i := range others {
				q.Add(Visit{Key: Key{Of: pods.NamespacedKey{Namespace: fmt.Sprint("n", i)}, Pod: types.UID(fmt.Sprint("p", i))}})
			}
		}
		var ended []Key
		for underWay = 0; underWay < workers; underWay++ {
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
			assert.Equal(t, 28, underWay, "alone it has nearly all workers")
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
