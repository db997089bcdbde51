package server

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// conn is a connection of a client, with its connection to the upstream: the program of an inbound port, or the server
// of an outbound one.
type conn struct {
	server    *Server
	port      *port
	client    end
	upstream  end
	stopDial  atomic.Pointer[context.CancelFunc] // set while connect runs
	plaintext *proxy.Record                      // nil for TLS, and for outbound connections
	record    *proxy.Record                      // of a client of a guarded port

	presented *caller                // by the certificates of a handshake that may not be completed
	who       atomic.Pointer[caller] // once it is known; nil for outbound connections
	dismissed atomic.Bool            // the client is not admitted any more

	moved         atomic.Int64 // time of the last transfer, from Server.now
	unclear       atomic.Int64 // when it was accepted, from Server.elapsed, while lookBothWays runs; otherwise 0
	clientEnded   atomic.Bool
	upstreamEnded atomic.Bool
	upstreamReset atomic.Bool // seen by a write
	killed        atomic.Bool
	directions    atomic.Int32 // number of directions still copied

	element *list.Element // in list, one of the registry's lists
	list    *list.List
}

func newConn(s *Server, p *port, client *net.TCPConn) *conn {
	c := &conn{server: s, port: p}
	c.client.tcp.Store(client)
	c.moved.Store(s.now.Load())
	return c
}

func (c *conn) clientAddr() netip.AddrPort {
	address := c.client.tcp.Load().RemoteAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
}

// kill closes both connections, and cancels a dial, so that blocked calls return. With reset, the peers
// get a TCP reset instead of an ordinary end.
func (c *conn) kill(reset bool) {
	c.killed.Store(true)
	if stop := c.stopDial.Load(); stop != nil {
		(*stop)()
	}
	c.client.close(reset)
	c.upstream.close(reset)
}

// end releases a connection. It is called once, when nothing uses the connection any more.
func (c *conn) end() {
	c.kill(false)
	c.server.clientEnded(c)
	c.server.conns.remove(c)
	c.server.running.Done()
}

// serve establishes the connection, and starts goroutines that copy data. It then returns, so that
// the large stack of a handshake is not kept while the connection lasts.
func (c *conn) serve() {
	var first []byte
	var ok bool
	if c.port.out != nil {
		first, ok = c.reach()
	} else {
		first, ok = c.accept()
	}
	if !ok || !c.server.conns.established(c) {
		c.end()
		return
	}
	_ = c.client.tcp.Load().SetDeadline(time.Time{})
	c.copy(first)
}

// accept reads the first bytes of an inbound connection, makes the handshake and dials the program. It returns the
// first bytes of plaintext, and false if there is nothing to copy.
func (c *conn) accept() (first []byte, ok bool) {
	client, limits := c.client.tcp.Load(), c.server.cfg.Limits
	begun, accepted := c.server.cfg.Clock(), c.server.elapsed()
	wait, plaintext := limits.Handshake, c.allowsPlaintext()
	if plaintext {
		wait = limits.FirstByte
	}
	_ = client.SetReadDeadline(begun.Add(wait))
	first, kind, err := c.look()
	if plaintext && errors.Is(err, os.ErrDeadlineExceeded) {
		if len(first) == 0 {
			c.unclear.Store(accepted)
			first, kind, err = c.lookBothWays()
			c.unclear.Store(0)
		} else { // fewer bytes than a ClientHello needs
			kind, err = proxy.KindOther, nil
		}
	}
	switch {
	case err != nil:
		c.beginsWithNothing(first, err)
		return nil, false
	case kind == proxy.KindTLS:
		return nil, c.handshake(first) && c.dial()
	case !plaintext:
		c.answerNotTLS(first)
		return nil, false
	case !c.settle(unencrypted):
		return nil, false
	}
	c.server.plaintext(c, proxy.Describe(first))
	return first, c.dial()
}

// beginsWithNothing counts a connection that ended before its kind was known. One that ends without
// a byte is a probe of the port, and is not logged. After an SSLRequest, it is a failed handshake.
func (c *conn) beginsWithNothing(first []byte, err error) {
	switch {
	case c.killed.Load():
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.port.counters.handshakeTimeouts.Add(1)
	case len(first) == 0 && !errors.Is(err, errNoTLS):
		c.port.counters.probes.Add(1)
	default:
		c.port.counters.handshakeErrors.Add(1)
	}
}

// look reads until the kind of the connection is known. It answers PostgreSQL's requests for
// encryption. After the answer to an SSLRequest, anything but TLS is an error.
func (c *conn) look() (first []byte, kind proxy.Kind, err error) {
	var ssl, gss bool
	client := c.client.tcp.Load()
	first = make([]byte, 0, proxy.FirstBytes)
	for {
		kind = proxy.Look(first)
		switch {
		case kind == proxy.KindTLS:
			return first, kind, nil
		case ssl && kind != proxy.KindUndecided:
			return first, kind, errNoTLS
		case kind == proxy.KindSSL:
			ssl, first = true, first[:0]
			_, err = client.Write([]byte("S"))
		case kind == proxy.KindGSS && !gss:
			gss, first = true, first[:0]
			_, err = client.Write([]byte("N"))
		case kind != proxy.KindUndecided:
			return first, kind, nil
		}
		if err == nil {
			var n int
			n, err = client.Read(first[len(first):proxy.FirstBytes])
			first = first[:len(first)+n]
		}
		switch {
		case err != nil && ssl:
			return first, proxy.KindUndecided, errNoTLS
		case err != nil:
			return first, proxy.KindUndecided, err
		}
	}
}

var errNoTLS = errors.New("no TLS after an SSLRequest")

// lookBothWays is for a client that sent nothing in time. It dials the program, and waits for the first
// byte of either side. If the program sends it, the connection is plaintext. A late ClientHello is
// still served.
func (c *conn) lookBothWays() ([]byte, proxy.Kind, error) {
	if !c.dial() {
		return nil, proxy.KindUndecided, io.EOF
	}
	client, upstream, spoke := c.client.tcp.Load(), c.upstream.tcp.Load(), make(chan bool, 1)
	_ = client.SetReadDeadline(time.Time{})
	go func() {
		err := waitReadable(upstream)
		switch {
		case err == nil:
			_ = client.SetReadDeadline(time.Unix(1, 0)) // look returns
		case !errors.Is(err, os.ErrDeadlineExceeded): // a reset
			c.kill(true)
		}
		spoke <- err == nil
	}()
	first, kind, err := c.look()
	_ = upstream.SetReadDeadline(time.Unix(1, 0)) // waitReadable returns
	programFirst := <-spoke
	_ = upstream.SetReadDeadline(time.Time{})
	_ = client.SetReadDeadline(time.Time{})
	if programFirst && errors.Is(err, os.ErrDeadlineExceeded) {
		return first, proxy.KindOther, nil
	}
	if err == nil {
		_ = client.SetReadDeadline(c.server.cfg.Clock().Add(c.server.cfg.Limits.Handshake))
	}
	return first, kind, err
}

// Bounds for reading the rest of a refused request. The client gets the response, or the alert of TLS, only if the
// request is read: closing a connection with unread bytes resets it.
const (
	lingerFor   = time.Second
	lingerBytes = 64 << 10
)

// answerNotTLS ends a plaintext connection on a port for TLS only, or on a guarded one.
func (c *conn) answerNotTLS(first []byte) {
	client := c.client.tcp.Load()
	kind := proxy.Describe(first)
	switch {
	case c.port.Plaintext && proxy.IsProbe(first):
		c.port.counters.probes.Add(1)
	case c.port.Plaintext:
		c.server.refused(c, unencrypted.Caller, proxy.Unencrypted, nil)
	default:
		c.port.counters.notTLS.Add(1)
		c.server.log.info("plaintext on a port for TLS", "port", c.port.Name, "client", c.clientAddr().Addr(), "kind", string(kind))
	}
	if kind != proxy.KindHTTP {
		return
	}
	_ = client.SetDeadline(c.server.cfg.Clock().Add(lingerFor))
	if _, err := io.WriteString(client, proxy.NotTLS); err != nil {
		return
	}
	c.linger()
}

// linger ends the proxy's side of a refused connection, and reads the rest of the client's.
func (c *conn) linger() {
	client := c.client.tcp.Load()
	_ = client.SetDeadline(c.server.cfg.Clock().Add(lingerFor))
	_ = client.CloseWrite()
	_, _ = io.CopyN(io.Discard, client, lingerBytes)
}
