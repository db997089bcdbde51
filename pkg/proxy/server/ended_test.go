package server

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// hung runs a server that neither answers nor ends, and returns the world of its clients, and their clock.
func hung(t *testing.T, most int) (w *world, passed *atomic.Int64) {
	t.Helper()
	passed = &atomic.Int64{}
	svc, end := newService(t), make(chan struct{})
	svc.serve(svc.config(), func(*tls.Conn) { <-end })
	w = svc.outside(func(c *Config) {
		c.Limits.MaxConnections = most
		c.Clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	})
	t.Cleanup(func() { close(end) })
	return w, passed
}

// asks makes a request, and returns once it is forwarded.
func (w *world) asks(n int) (clients []*net.TCPConn) {
	w.t.Helper()
	for range n {
		before := w.serving()
		c := w.dial(atOnce)
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
		require.NoError(w.t, err)
		w.eventually("forwarded", func() bool { return w.serving() == before+1 })
		clients = append(clients, c)
	}
	return clients
}

// Clients of a server that hangs give up. What they leave does not keep the proxy from other calls: it is closed for
// new ones, and soon anyhow.
func TestAHungServerDoesNotUseUpTheProxy(t *testing.T) {
	const most = 8
	w, passed := hung(t, most)
	for _, c := range w.asks(most) {
		require.NoError(t, c.Close())
	}
	w.eventually("all clients have ended", func() bool { return w.serving() == 0 })
	require.Equal(t, most, w.conns.len())
	for i := range 3 {
		_, err := io.WriteString(w.dial(either), "GET / HTTP/1.1\r\n\r\n")
		require.NoError(t, err)
		w.eventually("it has the place of one that has ended", func() bool { return w.of(either).counters.connect.Load() == uint64(i+1) })
	}
	require.EqualValues(t, 3, w.of(atOnce).counters.evicted.Load())
	require.Zero(t, w.of(either).counters.refused.Load()+w.of(either).counters.evicted.Load())

	passed.Add(int64(proxy.KeptForAnswer) - int64(time.Minute))
	w.sweepOnce(false)
	require.Equal(t, most, w.conns.len(), "a client that has ended its side may wait for its answer")
	passed.Add(int64(time.Minute))
	w.sweepOnce(false)
	w.eventually("only the clients that have not ended are left", func() bool { return w.conns.len() == 3 })
	require.EqualValues(t, most-3, w.of(atOnce).counters.expired.Load())
}

// Nothing is read from a client that has ended its side. That it is gone altogether is seen all the same.
func TestAResetAfterTheEnd(t *testing.T) {
	w, _ := hung(t, 8)
	clients := w.asks(2)
	for _, c := range clients {
		require.NoError(t, c.CloseWrite())
	}
	w.eventually("both have ended", func() bool { return w.serving() == 0 })
	require.NoError(t, clients[0].SetLinger(0))
	require.NoError(t, clients[0].Close())
	w.eventually("the one that was reset is gone", func() bool { return w.conns.len() == 1 })
}

// In the other direction anyone may connect: a flood closes its own connections before those that wait for an answer.
func TestAFloodClosesItsOwnConnections(t *testing.T) {
	const most = 8
	release := make(chan struct{})
	w := start(t, program(t, func(c *net.TCPConn) {
		_, _ = io.Copy(io.Discard, c)
		<-release
		_, _ = io.WriteString(c, "done")
	}), func(c *Config) { c.Limits.MaxConnections = most })
	client := w.dial(both)
	_, err := io.WriteString(client, "x")
	require.NoError(t, err)
	require.NoError(t, client.CloseWrite())
	w.eventually("it waits for the answer", func() bool {
		w.conns.mu.Lock()
		defer w.conns.mu.Unlock()
		return w.conns.answering[in].Len() == 1
	})
	for range 3 * most {
		w.dial(strict)
	}
	w.eventually("evicted", func() bool { return w.of(strict).counters.evicted.Load() == 2*most+1 })
	close(release)
	require.Equal(t, "done", receive(t, client, 4))
}
