package controller

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// long is a timeout that never expires.
const long = process.Soon

func keyIn(namespace string) pods.NamespacedKey {
	return pods.NamespacedKey{Namespace: namespace, Key: pods.SecretKey("web-tls")}
}

func TestProberDialsPodsConcurrentlyAndPortsOneByOne(t *testing.T) {
	const pods, concurrency = 40, 4
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	var open, most atomic.Int32
	gate := make(chan struct{})
	at := rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
		now := open.Add(1)
		for {
			before := most.Load()
			if now <= before || most.CompareAndSwap(before, now) {
				break
			}
		}
		<-gate
		open.Add(-1)
		rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}})(conn)
	})
	got := make(chan probe.Key, 2*pods)
	p := loopback(t, Config{Concurrency: concurrency, Timeout: long}, time.Now, func(v probe.Target, answers []probe.Answer) {
		assert.Len(t, answers, 1)
		assert.Equal(t, pki.Fingerprint(pair.Leaf), answers[0].Leaf)
		got <- v.Key
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
	ask := func() {
		for i := range pods {
			p.Enqueue(probe.Target{
				Key:     probe.Key{Of: keyIn(fmt.Sprint("shop-", i%2)), Pod: types.UID(string(rune('a' + i)))},
				Address: at.Addr(), Ports: []uint16{at.Port()}, Name: "web.shop.svc", Names: []string{"web.shop.svc"},
			})
		}
	}
	ask()
	require.Eventually(t, func() bool { return open.Load() == concurrency }, long, time.Millisecond)
	ask() // some are being dialled, the others wait
	close(gate)
	seen := map[probe.Key]bool{}
	for range pods {
		seen[<-got] = true
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.queue.Len() == 0
	}, long, time.Millisecond)
	stop()
	require.NoError(t, <-done)
	assert.Len(t, seen, pods)
	assert.Empty(t, got)
	assert.EqualValues(t, concurrency, most.Load())
	assert.InDelta(t, pods, testutil.ToFloat64(p.results.WithLabelValues("tls")), 0)
}

// fixed is a target for a pod with listeners at the addresses.
func fixed(namespace, pod string, at ...netip.AddrPort) probe.Target {
	v := probe.Target{
		Key:     probe.Key{Of: keyIn(namespace), Pod: types.UID(pod)},
		Address: at[0].Addr(), Name: "web.shop.svc", Names: []string{"web.shop.svc"},
	}
	for _, a := range at {
		v.Ports = append(v.Ports, a.Port())
	}
	return v
}

func noTrust(context.Context) probe.Trust { return probe.Trust{} }

// loopback returns a prober that dials listeners on loopback.
func loopback(t *testing.T, cfg Config, now func() time.Time, done func(probe.Target, []probe.Answer)) *Prober {
	cfg.PodCIDRs = []string{"127.0.0.0/8"}
	p, err := newProber(cfg, now, noTrust, done)
	require.NoError(t, err)
	return p
}

func TestRefusedAddressIsNotDialled(t *testing.T) {
	var dialled atomic.Int32
	at := rotatortest.Accept(t, "127.0.0.1", func(net.Conn) { dialled.Add(1) })
	p, err := newProber(Config{Concurrency: 1, Timeout: long}, time.Now, noTrust, nil)
	require.NoError(t, err)
	for _, address := range []string{"127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "::"} {
		v := fixed("shop", "a", at)
		v.Address = netip.MustParseAddr(address)
		answers := p.dialPorts(t.Context(), v)
		require.Len(t, answers, 1)
		assert.Equal(t, probe.NotVerified, answers[0].Kind)
	}
	assert.InDelta(t, 2, testutil.ToFloat64(p.refused.WithLabelValues("loopback")), 0)
	assert.InDelta(t, 2, testutil.ToFloat64(p.refused.WithLabelValues("unspecified")), 0)
	assert.Equal(t, 0, testutil.CollectAndCount(p.results))
	assert.Equal(t, probe.NoAnswer, loopback(t, Config{Concurrency: 1, Timeout: long}, time.Now, nil).dialPorts(t.Context(), fixed("shop", "a", at))[0].Kind)
	assert.EqualValues(t, 1, dialled.Load(), "only where its range is named")
}

// The pods of one namespace never answer and have all its workers. Those of another are dialled,
// although no dial of the first ends.
func TestTarpitNamespaceDoesNotBlockOthers(t *testing.T) {
	const tarpits, concurrency = 500, 16
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	var stuck atomic.Int32
	silent := rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
		stuck.Add(1)
		_, _ = io.Copy(io.Discard, conn)
	})
	serves := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}}))
	got := make(chan probe.Key, 100)
	p := loopback(t, Config{Concurrency: concurrency, Timeout: time.Hour}, time.Now, func(v probe.Target, answers []probe.Answer) {
		assert.Equal(t, pki.Fingerprint(pair.Leaf), answers[0].Leaf)
		got <- v.Key
	})
	for i := range tarpits {
		p.Enqueue(fixed("hostile", fmt.Sprint("h", i), silent))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
	require.Eventually(t, func() bool { return stuck.Load() == concurrency-concurrency/8 }, long, time.Millisecond, "nearly all workers")
	for i := range cap(got) {
		p.Enqueue(fixed("shop", fmt.Sprint("s", i), serves))
	}
	for range cap(got) {
		assert.Equal(t, "shop", (<-got).Of.Namespace)
	}
	assert.EqualValues(t, concurrency-concurrency/8, stuck.Load())
	stop()
	require.NoError(t, <-done)
}

func TestDialPortsEndsAtFirstTimeout(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	serves := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}}))
	first, second := rotatortest.Accept(t, "127.0.0.1", silent), rotatortest.Accept(t, "127.0.0.1", silent)
	p := loopback(t, Config{Concurrency: 1, Timeout: long}, time.Now, nil)
	var dialled []string
	p.dial = func(ctx context.Context, _ dial.Client, address, name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome {
		if dialled = append(dialled, address); address != serves.String() {
			timeout = 100 * time.Millisecond // of what never answers alone: a handshake may take long
		}
		return dial.Dial(ctx, address, name, protocol, timeout)
	}
	answers := p.dialPorts(t.Context(), fixed("shop", "a", serves, first, second, serves))
	require.Len(t, answers, 2)
	assert.Equal(t, probe.TLS, answers[0].Kind)
	assert.Equal(t, probe.NoAnswer, answers[1].Kind)
	assert.Equal(t, probe.CauseTimeout, answers[1].Cause)
	assert.True(t, answers[1].Slow)
	assert.Equal(t, []string{serves.String(), first.String()}, dialled)
}

// A server answers just in time at each of its ports.
func TestDialPortsEndsAfterTimeout(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	var passed atomic.Int64
	at := rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
		passed.Add(int64(long * 9 / 10))
		rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}})(conn)
	})
	now := func() time.Time { return rotatortest.Noon.Add(time.Duration(passed.Load())) }
	answers := loopback(t, Config{Concurrency: 1, Timeout: long}, now, nil).dialPorts(t.Context(), fixed("shop", "a", at, at, at, at))
	require.Len(t, answers, 2)
	for i, slow := range []bool{false, true} {
		assert.Equal(t, probe.TLS, answers[i].Kind)
		assert.Equal(t, slow, answers[i].Slow)
	}
}

// A panic caused by a server's data only costs that port's answer.
func TestPanicInAnswer(t *testing.T) {
	const secret = "what the server sent"
	var logged strings.Builder
	ctx := log.IntoContext(t.Context(), funcr.New(func(prefix, args string) { logged.WriteString(prefix + args + "\n") }, funcr.Options{}))
	p := loopback(t, Config{Concurrency: 1, Timeout: long}, time.Now, nil)
	outcomes := []func() probe.Outcome{
		func() probe.Outcome { panic(secret) },
		func() probe.Outcome { return probe.Outcome{Kind: probe.TLS} }, // no certificate: judging it is a panic
		func() probe.Outcome { return probe.Outcome{Kind: probe.Plaintext} },
	}
	p.dial = func(context.Context, dial.Client, string, string, starttls.Protocol, time.Duration) probe.Outcome {
		next := outcomes[0]
		outcomes = outcomes[1:]
		return next()
	}
	at := netip.MustParseAddrPort("127.0.0.1:1")
	target := fixed("shop", "uid-of-a", at, at, at)
	target.Guards = map[uint16]probe.Guard{1: {Admits: "a"}}
	answers := p.dialPorts(ctx, target)
	require.Len(t, answers, 3)
	for _, a := range answers[:2] {
		require.NotNil(t, a.Guarding, "strangers were to try")
		assert.Empty(t, a.Guarding.Judgement)
		assert.Equal(t, probe.NotVerified, a.Kind)
		assert.Equal(t, probe.CausePanic, a.Cause)
		assert.False(t, a.At.IsZero())
	}
	assert.Equal(t, probe.Plaintext, answers[2].Kind)
	assert.InDelta(t, 2, testutil.ToFloat64(p.results.WithLabelValues("panic")), 0)
	assert.InDelta(t, 1, testutil.ToFloat64(p.results.WithLabelValues("plaintext")), 0)
	assert.NotContains(t, logged.String(), secret)
	for _, want := range []string{"cannot evaluate the answer of a pod", `"namespace"="shop"`, `"pod"="uid-of-a"`, `"port"=1`, "TestPanicInAnswer", "probe.Target.Answer:"} {
		assert.Contains(t, logged.String(), want)
	}
}
