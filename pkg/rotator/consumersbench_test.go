package rotator

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// benchConsumers are n pods of one Deployment that serve what they should.
func benchConsumers(b *testing.B, n int) consumersSituation {
	b.Helper()
	svc := serves(ready("web", leafNo(2)), leafNo(2), noon)
	s := lookAt(time.Minute, svc)
	var shared *door
	for i := range n {
		pod := readyPod(fmt.Sprintf("web-hash-%05d", i), "web")
		if shared == nil {
			shared = doorOf(pod.Template.Value(), "web-tls", s.services)
		}
		s.consumers = append(s.consumers, consumer{pod: pod, door: shared, seen: noon, answers: []answer{showed(leafNo(2), time.Second)}})
	}
	return s
}

// BenchmarkDecideConsumers is one look at a Secret that 2000 pods mount.
func BenchmarkDecideConsumers(b *testing.B) {
	s := benchConsumers(b, 2000)
	var d consumersDecision
	for b.Loop() {
		d = decideConsumers(s, testPace)
	}
	require.Equal(b, 2000, d.states[StateCurrent])
}

// BenchmarkConsumersMemory reports what is kept of a pod that serves, beside what
// the cache of pods keeps of it.
func BenchmarkConsumersMemory(b *testing.B) {
	const perSecret = 10
	for b.Loop() {
		before := heap()
		l := newConsumersLedger()
		for i := range benchPods / perSecret {
			key := types.NamespacedName{Namespace: "team-payments", Name: fmt.Sprintf("web-%d-tls", i)}
			f := followed{cert: cert2, pods: map[types.UID]remembered{}, states: map[State]int{StateCurrent: perSecret}}
			l.put(key, f)
			for j := range perSecret {
				f.pods[types.UID(fmt.Sprintf("0b8a2c55-3b8c-4b58-9f2e-%012d", i*perSecret+j))] = remembered{seen: noon, reached: cert2.leaf}
			}
			l.put(key, f)
			for uid := range f.pods {
				l.record(visitKey{key, uid}, []answer{showed(fmt.Sprintf("%064x", i), time.Second)})
			}
		}
		b.ReportMetric(float64(heap()-before)/benchPods, "B/consumer")
		runtime.KeepAlive(l)
	}
}

// BenchmarkProbe is one dial, the server's part of it included.
func BenchmarkProbe(b *testing.B) {
	pair := newCA(b, 1, time.Now()).issue(b, time.Now(), "web.shop.svc")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func(conn net.Conn) {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}(conn)
		}
	}()
	at := netip.MustParseAddrPort(l.Addr().String())
	for b.Loop() {
		require.Equal(b, answeredTLS, probe(b.Context(), at, "web.shop.svc", long).kind)
	}
	require.NoError(b, l.Close())
	<-done
}
