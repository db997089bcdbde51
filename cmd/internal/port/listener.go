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

// maxHeaders is the number of bytes received until a request's headers are complete; the first request
// includes the TLS handshake, in which crypto/tls accepts 256 KiB of client certificates. Beyond it, the
// connection is closed without an answer: net/http waits half a second after one (HTTP 431), and such
// connections could keep others waiting.
const maxHeaders = 32 << 10

// maxEnding is the part of a port, one eighth, that evicted connections which are still being served
// may use.
const maxEnding = 8

var errHeaders = fmt.Errorf("more than %d bytes were received before the headers of a request were complete", maxHeaders)

// listener accepts every connection, and keeps a limited number. If there is no room, it closes one.
type listener struct {
	net.Listener
	most    int
	evicted func(peer netip.Addr)

	mu      sync.Mutex
	changed sync.Cond // ending, closed
	conns   []*conn
	events  uint64
	ending  int // evicted connections that are still being served
	closed  bool
}

func newListener(l net.Listener, most int, evicted func(netip.Addr)) *listener {
	bounded := &listener{Listener: l, most: most, evicted: evicted}
	bounded.changed.L = &bounded.mu
	return bounded
}

// Accept waits for a connection. If many evicted connections are still being served, because the server
// has not noticed, it first waits for them: they cost as much as before, and on a busy processor new
// connections would be evicted before they are served.
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

// Close ends Accept. The server closes the connections.
func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.changed.Broadcast()
	return l.Listener.Close()
}

// add adds c and returns the connection to close for it, or nil.
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

// enter moves c to stage s. l.mu must be held.
func (l *listener) enter(c *conn, s stage) {
	l.events++
	c.stage, c.since = s, l.events
}

// remove removes c. l.mu must be held.
func (l *listener) remove(c *conn) {
	last := len(l.conns) - 1
	l.conns[c.index] = l.conns[last]
	l.conns[c.index].index = c.index
	l.conns[last] = nil
	l.conns = l.conns[:last]
}

// follow is the server's ConnState callback.
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

// withStop is the server's ConnContext callback. It cancels a connection's requests when it is closed,
// also those whose body was not read: the server does not notice these.
func withStop(ctx context.Context, nc net.Conn) context.Context {
	ctx, connOf(nc).stop = context.WithCancel(ctx)
	return ctx
}

// abort closes a connection at once: data in flight is dropped, and its memory in the kernel is freed.
func (c *conn) abort() {
	c.stop()
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// Read is called by the goroutine that serves the connection, which also changes the stage, or while
// that goroutine waits.
//
// One read may return the headers and much of a body, as crypto/tls fills its buffer. Therefore it is
// the next read that fails.
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
