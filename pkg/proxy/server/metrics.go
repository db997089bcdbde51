package server

import (
	"sync/atomic"

	text "github.com/servingcert/servingcert/pkg/exposition"
)

// counters are those of one port. No metric has the address of a peer as a label: whoever connects
// would make series.
type counters struct {
	tls, plaintext, probes            atomic.Uint64
	notTLS, handshakeErrors           atomic.Uint64
	handshakeTimeouts, upstreamErrors atomic.Uint64
	evicted, refused, expired         atomic.Uint64
	acceptErrors                      atomic.Uint64
}

// exposition is the text format, with what many metrics of the proxy have in common.
type exposition struct{ text.Text }

// each writes a counter of all ports. Its second label says which one it is.
func (e *exposition) each(ports []*port, label, value string, of func(*counters) *atomic.Uint64) {
	for _, p := range ports {
		e.Value(int64(of(&p.counters).Load()), "port", p.Name, label, value) //nolint:gosec // a count
	}
}

func (s *Server) metrics() []byte {
	e := &exposition{}
	e.Family("servingcert_proxy_connections_total", "counter", "Connections that were served, by port, and whether they are tls or plaintext.", "port", "kind")
	e.each(s.ports, "kind", "tls", func(c *counters) *atomic.Uint64 { return &c.tls })
	e.each(s.ports, "kind", "plaintext", func(c *counters) *atomic.Uint64 { return &c.plaintext })
	e.Family("servingcert_proxy_connections_failed_total", "counter", "Connections that ended otherwise than by a peer, by port and reason: not_tls (plaintext where only TLS is spoken), handshake, handshake_timeout, upstream (the program does not accept), evicted (without a request, for a newer one), refused (too many), idle, accept (the system has no resources), probe (closed without a byte).", "port", "reason")
	e.each(s.ports, "reason", "not_tls", func(c *counters) *atomic.Uint64 { return &c.notTLS })
	e.each(s.ports, "reason", "handshake", func(c *counters) *atomic.Uint64 { return &c.handshakeErrors })
	e.each(s.ports, "reason", "handshake_timeout", func(c *counters) *atomic.Uint64 { return &c.handshakeTimeouts })
	e.each(s.ports, "reason", "upstream", func(c *counters) *atomic.Uint64 { return &c.upstreamErrors })
	e.each(s.ports, "reason", "evicted", func(c *counters) *atomic.Uint64 { return &c.evicted })
	e.each(s.ports, "reason", "refused", func(c *counters) *atomic.Uint64 { return &c.refused })
	e.each(s.ports, "reason", "idle", func(c *counters) *atomic.Uint64 { return &c.expired })
	e.each(s.ports, "reason", "accept", func(c *counters) *atomic.Uint64 { return &c.acceptErrors })
	e.each(s.ports, "reason", "probe", func(c *counters) *atomic.Uint64 { return &c.probes })
	e.Family("servingcert_proxy_connections", "gauge", "Connections that there are, on all ports.")
	e.Value(int64(s.conns.len()))
	e.Family("servingcert_proxy_max_connections", "gauge", "How many connections there may be, on all ports.")
	e.Value(int64(s.cfg.Limits.MaxConnections))
	e.Family("servingcert_proxy_certificate_reloads_total", "counter", "Certificates that were loaded after the first.")
	e.Value(int64(s.certs.reloads.Load())) //nolint:gosec // a count
	e.Family("servingcert_proxy_certificate_files_invalid", "gauge", "1 while the files cannot be loaded; an earlier certificate is served, if there is one.")
	invalid := int64(0)
	if s.certs.failing.Load() {
		invalid = 1
	}
	e.Value(invalid)
	if current := s.certs.current.Load(); current != nil {
		e.Family("servingcert_proxy_certificate_not_after_timestamp_seconds", "gauge", "When the certificate that is served expires.")
		e.Value(current.notAfter.Unix())
	}
	return e.Bytes()
}
