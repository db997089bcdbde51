package server

import (
	"crypto/tls"
	"errors"
	"os"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// handshake makes the TLS handshake of a connection whose first bytes were read.
func (c *conn) handshake(first []byte) bool {
	client := c.client.tcp.Load()
	_ = client.SetDeadline(c.server.cfg.Clock().Add(c.server.cfg.Limits.Handshake))
	c.client.transport = &transport{TCPConn: client, pending: first, most: mostUnread}
	guard := c.server.guard(c.port)
	if guard != nil {
		c.client.transport.most, c.client.transport.verify = mostOfGuarded, c.verify
	}
	c.client.tls = tls.Server(c.client.transport, c.server.inbound(c.port, guard))
	if err := c.client.tls.Handshake(); err != nil {
		if !c.killed.Load() {
			c.handshakeFailed(guard, err)
		}
		return false
	}
	if !c.identify() {
		return false
	}
	c.port.counters.tls.Add(1)
	return true
}

// inbound returns the configuration of a port. Those for a guarded port do not share sessions with the others: a
// client without a certificate is asked for one when its port becomes guarded.
func (s *Server) inbound(p *port, guard *proxy.Guard) *tls.Config {
	if guard == nil {
		return s.certs.config(p.H2)
	}
	return s.certs.current.Load().guarded(s.clientRoots.current.Load(), variant{p.H2, guard.Watch}, s.cfg.Clock)
}

// handshakeFailed counts and logs a failed handshake with a client.
func (c *conn) handshakeFailed(guard *proxy.Guard, err error) {
	var refused *refusal
	switch {
	case c.client.transport.probes && (errors.As(err, &refused) || isNoCertificate(err)):
		c.port.counters.probes.Add(1)
		c.linger()
	case errors.As(err, &refused):
		c.server.refused(c, refused.caller, refused.reason, refused.err)
		c.linger()
	case guard != nil && isNoCertificate(err):
		c.server.refused(c, uncertified.Caller, proxy.NoCertificate, nil)
		c.linger()
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.port.counters.handshakeTimeouts.Add(1)
	default:
		c.port.counters.handshakeErrors.Add(1)
		c.server.log.info("TLS handshake failed", "port", c.port.Name, "client", c.clientAddr().Addr(), "error", err)
	}
}
