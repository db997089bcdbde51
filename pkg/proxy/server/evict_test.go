package server

import (
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The queue of the program is full, so that each connection to it takes minutes. A connection that was closed for
// another one, or at the end of the drain, does not continue to connect.
func TestClosedConnectionsStopDialling(t *testing.T) {
	const most, all = 9, 27
	w := start(t, fullPort(t), soonSilent, func(c *Config) {
		c.Limits.MaxConnections = most
		c.Upstream = slices.Repeat(c.Upstream[:1], 4) // the kernel gives up each after two minutes
	})
	var dials atomic.Int32
	for _, p := range w.ports {
		for i := range p.upstream.ways {
			dialer := &p.upstream.ways[i].dialer
			dialer.Timeout = time.Hour
			dialer.Control = func(string, string, syscall.RawConn) error {
				dials.Add(1)
				return nil
			}
		}
	}
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	for i := range all {
		switch i % 3 {
		case 0:
			w.tls(strict)
		case 1:
			_, err := io.WriteString(w.dial(both), "x")
			require.NoError(t, err)
		default:
			w.dial(both) // silent
		}
		w.eventually("dialled", func() bool { return w.conns.len() == min(i+1, most) && int(dials.Load()) == i+1 })
	}
	w.eventually("nothing is left of those that were closed", func() bool { // but the test's own sockets
		return runtime.NumGoroutine() <= goroutines+most && descriptors(t) <= files+all+2*most
	})
	begun := time.Now()
	w.stop() // with a drain time of zero
	require.Less(t, time.Since(begun), patience)
	for _, p := range w.ports {
		require.Zero(t, p.counters.upstreamErrors.Load(), "no fault of the program")
	}
	require.NotContains(t, w.logs.String(), "cannot connect")
}

// Evicted connections that still run take memory too. While there are many, no others are accepted.
func TestEvictedConnectionsThatStillRun(t *testing.T) {
	const most, running = 16, 16 + 16/maxEnding + 1
	w := start(t, program(t, echo), func(c *Config) { c.Limits.MaxConnections = most })
	var dials atomic.Int32
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	for i := range w.of(both).upstream.ways {
		w.of(both).upstream.ways[i].dialer.Control = func(string, string, syscall.RawConn) error {
			dials.Add(1)
			<-hold
			return nil
		}
	}
	var clients []net.Conn
	for i := range 2 * most {
		c := w.dial(both)
		_, err := io.WriteString(c, "x")
		require.NoError(t, err)
		clients = append(clients, c)
		if i < most { // the others evict connections that run
			w.eventually("it runs", func() bool { return int(dials.Load()) == i+1 })
		}
	}
	w.eventually("an eighth and one were evicted", func() bool {
		require.LessOrEqual(t, int(dials.Load()), running)
		return int(dials.Load()) == running
	})
	release()
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	w.eventually("all have ended", func() bool { return w.conns.len() == 0 })
	send(t, w.tls(strict), "ping")
}
