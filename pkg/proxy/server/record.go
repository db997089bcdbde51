package server

import (
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// plaintext records a plaintext client.
func (s *Server) plaintext(c *conn, kind proxy.Kind) {
	c.port.counters.plaintext.Add(1)
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	c.plaintext = s.clients.Add(c.clientAddr().Addr(), c.port.Name, kind, s.cfg.Clock())
}

// clientEnded records that the connection of a client in a list has ended.
func (s *Server) clientEnded(c *conn) {
	if c.plaintext == nil && c.record == nil {
		return
	}
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	for _, r := range []*proxy.Record{c.plaintext, c.record} {
		if r != nil {
			s.clients.End(r, s.cfg.Clock())
		}
	}
}

// called records the connection of a client that is admitted. reason is why it is so only because the port watches.
func (s *Server) called(c *conn, reason proxy.Reason) {
	who, address := c.who.Load().Caller, c.clientAddr().Addr()
	if reason != "" {
		c.port.counters.guard[index(reason)].watched.Add(1)
		s.log.info("watching: the list does not admit a client", callerFields(c, who, reason, nil)...)
	}
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	c.record = s.clients.Call(who, address, c.port.Name, reason, s.cfg.Clock())
}

// refused records a client that is not admitted. err is why its certificate is not valid, or nil.
func (s *Server) refused(c *conn, who proxy.Caller, reason proxy.Reason, err error) {
	c.port.counters.guard[index(reason)].refused.Add(1)
	fields := callerFields(c, who, reason, err)
	switch reason { // messages of their own: many of one reason do not suppress the others
	case proxy.NoCertificate:
		s.log.info("refused a client without a certificate", fields...)
	case proxy.Unverified:
		s.log.warn("refused a client whose certificate is not valid", fields...)
	case proxy.NotListed:
		s.log.warn("refused a client that is not listed", fields...)
	case proxy.Unencrypted:
		s.log.info("refused plaintext on a guarded port", fields...)
	}
	s.clientsMu.Lock()
	defer s.clientsMu.Unlock()
	s.clients.Refuse(who, c.clientAddr().Addr(), c.port.Name, reason, s.cfg.Clock())
}

func callerFields(c *conn, who proxy.Caller, reason proxy.Reason, err error) []any {
	fields := []any{"port", c.port.Name, "client", c.clientAddr().Addr(), "reason", string(reason)}
	if who.ID != (pki.SPIFFEID{}) {
		fields = append(fields, "identity", who.ID.String())
	}
	if err != nil && reason == proxy.Unverified {
		fields = append(fields, "error", short(err))
	}
	return fields
}

// clientList returns the plaintext clients, those of which it is unclear, and the callers of guarded ports.
func (s *Server) clientList() proxy.ClientList {
	now, elapsed := s.cfg.Clock(), s.elapsed()
	s.clientsMu.Lock()
	list := s.clients.List(now)
	s.clientsMu.Unlock()
	for _, c := range s.conns.notEstablished(in) {
		accepted := c.unclear.Load()
		if open := time.Duration(elapsed - accepted); accepted > 0 && s.cfg.Limits.Unclear(open) {
			list.AddUnclear(c.clientAddr().Addr(), c.port.Name, now.Add(-open), now)
		}
	}
	return list
}
