package port

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// maxHeaders is how many bytes are received until the headers of a request are complete; for
// the first one, the TLS handshake counts, in which crypto/tls takes 256 KiB of a client's
// certificates. The connection is closed without an answer, as net/http waits half a second
// after one (HTTP 431): with such connections anybody could keep others waiting.
const maxHeaders = 32 << 10

// maxEnding is the part of a port, one eighth, of which so many connections may be closed for
// others and not be done.
const maxEnding = 8

var errHeaders = fmt.Errorf("more than %d bytes were received before the headers of a request were complete", maxHeaders)

// listener takes every connection, and has at most so many. When there is no room for one,
// it closes another.
type listener struct {
	net.Listener
	most    int
	evicted func(peer netip.Addr)

	mu      sync.Mutex
	changed sync.Cond // ending, closed
	conns   []*conn
	events  uint64
	ending  int // connections that were closed for others, and are still being served
	closed  bool
}

func newListener(l net.Listener, most int, evicted func(netip.Addr)) *listener {
	bounded := &listener{Listener: l, most: most, evicted: evicted}
	bounded.changed.L = &bounded.mu
	return bounded
}

// Accept waits for a connection. While many were closed for others and are being served all
// the same, as the server has not noticed, it waits for these too: they cost as much as
// before, and where the processor is busy, they are closed before they had their turn.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	for l.ending > l.most/maxEnding && !l.closed {
		l.changed.Wait()
	}
	l.mu.Unlock()
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, peer: peerOf(raw)}
	if evicted := l.add(c); evicted != nil {
		evicted.abort()
		l.evicted(evicted.peer)
	}
	return c, nil
}

// Close ends Accept. Connections are the server's to close.
func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.changed.Broadcast()
	return l.Listener.Close()
}

// add returns the connection to be closed for this one, or nil.
func (l *listener) add(c *conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(c, opening)
	c.index = len(l.conns)
	l.conns = append(l.conns, c)
	if len(l.conns) <= l.most {
		return nil
	}
	evicted := victim(l.conns, l.most)
	evicted.evicted = true
	l.remove(evicted)
	l.ending++
	return evicted
}

// enter is called with l.mu held.
func (l *listener) enter(c *conn, s stage) {
	l.events++
	c.stage, c.since = s, l.events
}

// remove is called with l.mu held.
func (l *listener) remove(c *conn) {
	last := len(l.conns) - 1
	l.conns[c.index] = l.conns[last]
	l.conns[c.index].index = c.index
	l.conns[last] = nil
	l.conns = l.conns[:last]
}

// follow is the server's ConnState.
func (l *listener) follow(nc net.Conn, state http.ConnState) {
	c := connOf(nc)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		if c.stage == opening {
			l.enter(c, first)
		} else {
			l.enter(c, further)
		}
	case http.StateIdle:
		l.enter(c, idle)
		c.received = 0
	case http.StateClosed, http.StateHijacked:
		if c.evicted {
			l.ending--
			l.changed.Signal()
		} else {
			l.remove(c)
		}
	}
}

// withStop is the server's ConnContext. It lets the requests of a connection end with it,
// also those whose body was not read, in which the server does not notice.
func withStop(ctx context.Context, nc net.Conn) context.Context {
	ctx, connOf(nc).stop = context.WithCancel(ctx)
	return ctx
}

// abort closes a connection at once: what was received and sent is dropped, and its memory
// in the kernel is freed.
func (c *conn) abort() {
	c.stop()
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// Read is called by the goroutine that serves the connection, which also changes the stage,
// or while that waits.
//
// What one read returns may hold the headers and much of a body: crypto/tls reads as much as
// it has room for. So it is the next read that is refused.
func (c *conn) Read(p []byte) (int, error) {
	if c.stage != opening && c.stage != idle {
		return c.Conn.Read(p)
	}
	if c.received > maxHeaders {
		return 0, errHeaders
	}
	n, err := c.Conn.Read(p)
	c.received += n
	return n, err
}

func connOf(nc net.Conn) *conn {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	return nc.(*conn)
}

func peerOf(nc net.Conn) netip.Addr {
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
