package serving

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// BenchmarkDecide decides about a Secret that 2000 pods of a Deployment mount, all current.
func BenchmarkDecide(b *testing.B) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon)
	var all []consumer
	for i := range 2000 {
		c := asked(readyPod(fmt.Sprintf("web-hash-%05d", i), "web"), showed(rotatortest.Leaf(2), time.Second))
		c.seen = rotatortest.Noon
		all = append(all, c)
	}
	s := lookAt(time.Minute, svc, all...)
	var d Decision
	for b.Loop() {
		d = s.Decide()
	}
	require.Equal(b, 2000, d.States[stateCurrent])
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory reports the memory of a current pod's state, beside that of the cache of pods.
func BenchmarkMemory(b *testing.B) {
	const consumers, perSecret = 30_000, 10
	for b.Loop() {
		before := heap()
		kept := map[types.NamespacedName]*KeyState{}
		for i := range consumers / perSecret {
			m := &KeyState{certificate: cert2, pods: map[types.UID]*podState{}}
			kept[types.NamespacedName{Namespace: "team-payments", Name: fmt.Sprintf("web-%d-tls", i)}] = m
			for j := range perSecret {
				uid := types.UID(fmt.Sprintf("0b8a2c55-3b8c-4b58-9f2e-%012d", i*perSecret+j))
				m.pods[uid] = &podState{seen: rotatortest.Noon, most: 1, reached: cert2.leaf}
				m.Record(uid, []probe.Answer{showed(fmt.Sprintf("%064x", i), time.Second)})
			}
		}
		b.ReportMetric(float64(heap()-before)/consumers, "B/consumer")
		runtime.KeepAlive(kept)
	}
}
