package controller

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// long is a timeout that is not meant to pass.
const long = 20 * time.Second

func TestProberDialsOneAfterTheOtherOfEachAndManyOfAll(t *testing.T) {
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
	p := newProber(Config{concurrency, long}, time.Now, func(context.Context) pki.Bundle { return pki.Bundle{} }, func(v probe.Key, answers []probe.Answer) {
		assert.Len(t, answers, 1)
		assert.Equal(t, pki.Fingerprint(pair.Leaf), answers[0].Leaf)
		got <- v
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
	ask := func() {
		for i := range pods {
			p.Ask(probe.Visit{
				Key:     probe.Key{Secret: types.NamespacedName{Namespace: "shop", Name: "web-tls"}, Pod: types.UID(string(rune('a' + i)))},
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
		return len(p.asked) == 0 && p.queue.Len() == 0
	}, long, time.Millisecond)
	stop()
	require.NoError(t, <-done)
	assert.Len(t, seen, pods)
	assert.Empty(t, got)
	assert.EqualValues(t, concurrency, most.Load())
	assert.InDelta(t, pods, testutil.ToFloat64(p.results.WithLabelValues("tls")), 0)
}
