package server

import (
	"sync/atomic"

	text "github.com/servingcert/servingcert/pkg/exposition"
)

// counters are the counters of one port. No metric has a label with the address of a peer, because
// clients could then create any number of series.
type counters struct {
	tls, plaintext, probes            atomic.Uint64
	notTLS, handshakeErrors           atomic.Uint64
	handshakeTimeouts, upstreamErrors atomic.Uint64
	evicted, refused, expired         atomic.Uint64
	acceptErrors                      atomic.Uint64
}

// exposition writes the text format.
type exposition struct{ text.Text }

// each writes a counter of all ports, with the given label beside the port.
func (e *exposition) each(ports []*port, label, value string, of func(*counters) *atomic.Uint64) {
	for _, p := range ports {
		e.Value(int64(of(&p.counters).Load()), "port", p.Name, label, value) //nolint:gosec // a count
	}
}

func (s *Server) metrics() []byte {
	e := &exposition{}
	e.Family("servingcert_proxy_connections_total", "counter", "Served connections, by port and kind: tls or plaintext.", "port", "kind")
	e.each(s.ports, "kind", "tls", func(c *counters) *atomic.Uint64 { return &c.tls })
	e.each(s.ports, "kind", "plaintext", func(c *counters) *atomic.Uint64 { return &c.plaintext })
	e.Family("servingcert_proxy_connections_failed_total", "counter", "Connections that failed or were closed by the proxy, by port and reason: not_tls (plaintext on a port for TLS), handshake, handshake_timeout, upstream (no connection to the program), evicted (without a completed handshake or data, for a newer one), refused (too many), idle, accept (the system has no resources), probe (closed by the client without a byte).", "port", "reason")
	e.each(s.ports, "reason", "not_tls", func(c *counters) *atomic.Uint64 { return &c.notTLS })
	e.each(s.ports, "reason", "handshake", func(c *counters) *atomic.Uint64 { return &c.handshakeErrors })
	e.each(s.ports, "reason", "handshake_timeout", func(c *counters) *atomic.Uint64 { return &c.handshakeTimeouts })
	e.each(s.ports, "reason", "upstream", func(c *counters) *atomic.Uint64 { return &c.upstreamErrors })
	e.each(s.ports, "reason", "evicted", func(c *counters) *atomic.Uint64 { return &c.evicted })
	e.each(s.ports, "reason", "refused", func(c *counters) *atomic.Uint64 { return &c.refused })
	e.each(s.ports, "reason", "idle", func(c *counters) *atomic.Uint64 { return &c.expired })
	e.each(s.ports, "reason", "accept", func(c *counters) *atomic.Uint64 { return &c.acceptErrors })
	e.each(s.ports, "reason", "probe", func(c *counters) *atomic.Uint64 { return &c.probes })
	e.Family("servingcert_proxy_connections", "gauge", "Open connections on all ports.")
	e.Value(int64(s.conns.len()))
	e.Family("servingcert_proxy_max_connections", "gauge", "Maximum number of open connections on all ports.")
	e.Value(int64(s.cfg.Limits.MaxConnections))
	e.Family("servingcert_proxy_certificate_reloads_total", "counter", "Certificates loaded after the first.")
	e.Value(int64(s.certs.reloads.Load())) //nolint:gosec // a count
	e.Family("servingcert_proxy_certificate_files_invalid", "gauge", "1 while the certificate files cannot be loaded; the previous certificate, if any, is still served.")
	invalid := int64(0)
	if s.certs.failing.Load() {
		invalid = 1
	}
	e.Value(invalid)
	if current := s.certs.current.Load(); current != nil {
		e.Family("servingcert_proxy_certificate_not_after_timestamp_seconds", "gauge", "Expiry of the served certificate.")
		e.Value(current.notAfter.Unix())
	}
	return e.Bytes()
}
