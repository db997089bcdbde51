package server

import (
	"container/list"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// conn is one connection of a client, and the one to the program that belongs to it.
type conn struct {
	server *Server
	port   *port
	client *net.TCPConn
	// tls is nil for plaintext.
	tls       *tls.Conn
	transport *transport // below tls
	upstream  atomic.Pointer[net.TCPConn]

	moved        atomic.Int64 // when bytes last moved, by Server.now
	programEnded atomic.Bool
	killed       atomic.Bool
	directions   atomic.Int32 // how many are still copied

	element *list.Element // in list, which is the registry's
	list    *list.List
}

func (c *conn) clientAddr() netip.AddrPort {
	address := c.client.RemoteAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
}

// kill closes both connections. What is blocked in them returns. reset: their peers are to see
// that it is no ordinary end.
func (c *conn) kill(reset bool) {
	c.killed.Store(true)
	for _, each := range []*net.TCPConn{c.client, c.upstream.Load()} {
		if each == nil {
			continue
		}
		if reset {
			_ = each.SetLinger(0)
		}
		_ = each.Close()
	}
}

// end is called once for each connection, when nothing uses it any more.
func (c *conn) end() {
	c.kill(false)
	c.server.conns.remove(c)
	c.server.running.Done()
}

// serve does what comes before data is copied. It then leaves the connection to goroutines of
// their own: the stack that a handshake needs is not kept for as long as the connection lasts.
func (c *conn) serve() {
	first, ok := c.establish()
	if !ok || !c.server.conns.established(c) {
		c.end()
		return
	}
	_ = c.client.SetDeadline(time.Time{})
	c.copy(first)
}

// establish reads the first bytes, makes the handshake and dials the program. It returns what
// plaintext begins with, and false if there is nothing to copy.
func (c *conn) establish() (first []byte, ok bool) {
	limits := c.server.cfg.Limits
	begun := c.server.cfg.Clock()
	wait := limits.Handshake
	if c.port.Plaintext {
		wait = limits.FirstByte
	}
	_ = c.client.SetReadDeadline(begun.Add(wait))
	first, kind, err := c.look()
	if c.port.Plaintext && errors.Is(err, os.ErrDeadlineExceeded) {
		if len(first) == 0 {
			first, kind, err = c.lookBothWays()
		} else { // less than TLS begins with
			kind, err = proxy.KindOther, nil
		}
	}
	switch {
	case err != nil:
		c.beginsWithNothing(first, err)
		return nil, false
	case kind == proxy.KindTLS:
		return nil, c.handshake(first) && c.dial()
	case !c.port.Plaintext:
		c.refuse(first)
		return nil, false
	}
	c.server.plaintext(c, proxy.Describe(first))
	return first, c.dial()
}

// beginsWithNothing counts a connection that ended before it was clear what it is. One that ends
// without a byte is a probe of the port, and worth no word.
func (c *conn) beginsWithNothing(first []byte, err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.port.counters.handshakeTimeouts.Add(1)
	case len(first) == 0:
		c.port.counters.probes.Add(1)
	default:
		c.port.counters.handshakeErrors.Add(1)
	}
}

// look reads until it is clear what the connection begins with, and answers PostgreSQL's requests
// for encryption on the way. What follows the answer to an SSLRequest is TLS, or an error.
func (c *conn) look() (first []byte, kind proxy.Kind, err error) {
	var ssl, gss bool
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
			_, err = c.client.Write([]byte("S"))
		case kind == proxy.KindGSS && !gss:
			gss, first = true, first[:0]
			_, err = c.client.Write([]byte("N"))
		case kind != proxy.KindUndecided:
			return first, kind, nil
		}
		if err == nil {
			var n int
			n, err = c.client.Read(first[len(first):proxy.FirstBytes])
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

// lookBothWays is for a client that has not spoken in time: the program is dialled, and whoever
// speaks first decides. If it is the program, the connection is plaintext; a ClientHello is served
// however late it comes.
func (c *conn) lookBothWays() ([]byte, proxy.Kind, error) {
	if !c.dial() {
		return nil, proxy.KindUndecided, io.EOF
	}
	_ = c.client.SetReadDeadline(time.Time{})
	upstream, spoke := c.upstream.Load(), make(chan bool, 1)
	go func() {
		err := waitReadable(upstream)
		if err == nil {
			_ = c.client.SetReadDeadline(time.Unix(1, 0)) // look returns
		}
		spoke <- err == nil
	}()
	first, kind, err := c.look()
	_ = upstream.SetReadDeadline(time.Unix(1, 0)) // waitReadable returns
	programFirst := <-spoke
	_ = upstream.SetReadDeadline(time.Time{})
	_ = c.client.SetReadDeadline(time.Time{})
	if programFirst && errors.Is(err, os.ErrDeadlineExceeded) {
		return first, proxy.KindOther, nil
	}
	if err == nil {
		_ = c.client.SetReadDeadline(c.server.cfg.Clock().Add(c.server.cfg.Limits.Handshake))
	}
	return first, kind, err
}

// handshake makes the TLS handshake of a connection of which the first bytes were read.
func (c *conn) handshake(first []byte) bool {
	limits := c.server.cfg.Limits
	_ = c.client.SetDeadline(c.server.cfg.Clock().Add(limits.Handshake))
	c.transport = &transport{TCPConn: c.client, pending: first}
	c.tls = tls.Server(c.transport, c.server.certs.config(c.port.H2))
	if err := c.tls.Handshake(); err != nil {
		switch {
		case c.killed.Load():
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.port.counters.handshakeTimeouts.Add(1)
		default:
			c.port.counters.handshakeErrors.Add(1)
			c.server.log.info("TLS handshake failed", "port", c.port.Name, "client", c.clientAddr().Addr(), "error", err)
		}
		return false
	}
	c.port.counters.tls.Add(1)
	return true
}

// dialTries is how many connections at most are closed so that there is a descriptor for the one
// to the program: others may take what became free.
const dialTries = 10

// dial connects to the program, unless that was done.
func (c *conn) dial() bool {
	if c.upstream.Load() != nil {
		return true
	}
	upstream, err := c.port.upstream.dial()
	for tries := 0; errors.Is(err, syscall.EMFILE) && tries < dialTries && c.server.makeRoom(c); tries++ {
		upstream, err = c.port.upstream.dial()
	}
	if err != nil {
		c.port.counters.upstreamErrors.Add(1)
		c.server.log.warn("cannot connect to the program", "port", c.port.Name, "error", err)
		_ = c.client.SetLinger(0) // as a port on which nobody listens
		return false
	}
	c.upstream.Store(upstream)
	if c.killed.Load() { // before Store, and so without it
		_ = upstream.Close()
		return false
	}
	if c.port.ProxyV2 {
		header := proxy.Header(c.clientAddr(), c.client.LocalAddr().(*net.TCPAddr).AddrPort())
		if _, err := upstream.Write(header); err != nil {
			c.port.counters.upstreamErrors.Add(1)
			return false
		}
	}
	return true
}

// notTLS is what HTTP in plaintext is answered with where only TLS is spoken. It ends with the
// connection.
const notTLS = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"400 Bad Request: this port accepts TLS only, and the request is not encrypted. Use https.\n"

// lingerFor is how long, and how many bytes, the rest of a refused request is read, so that its
// client reads the answer: a connection that is closed with unread bytes is reset.
const (
	lingerFor   = time.Second
	lingerBytes = 64 << 10
)

// refuse ends a connection that begins with plaintext where only TLS is spoken.
func (c *conn) refuse(first []byte) {
	kind := proxy.Describe(first)
	c.port.counters.notTLS.Add(1)
	c.server.log.info("plaintext on a port for TLS", "port", c.port.Name, "client", c.clientAddr().Addr(), "kind", string(kind))
	if kind != proxy.KindHTTP {
		return
	}
	_ = c.client.SetDeadline(c.server.cfg.Clock().Add(lingerFor))
	if _, err := io.WriteString(c.client, notTLS); err != nil {
		return
	}
	_ = c.client.CloseWrite()
	_, _ = io.CopyN(io.Discard, c.client, lingerBytes)
}
