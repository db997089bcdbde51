package server

import (
	"slices"
	"sync/atomic"

	text "github.com/servingcert/servingcert/pkg/exposition"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// counters are the counters of one port. No metric has a label with the address of a peer, because
// clients could then create any number of series.
type counters struct {
	evicted, refused, expired, acceptErrors, probes atomic.Uint64
	// Of inbound ports:
	guard                             [reasons]struct{ refused, watched atomic.Uint64 } // by index
	tls, plaintext                    atomic.Uint64
	notTLS, handshakeErrors           atomic.Uint64
	handshakeTimeouts, upstreamErrors atomic.Uint64
	// Of outbound ports:
	connect, connectTLS atomic.Uint64
	dns, server         atomic.Uint64
	verification        atomic.Uint64
	serverHandshake     atomic.Uint64
}

// reasons is the number of proxy.Reasons, and index the number of one.
const reasons = 4

func index(r proxy.Reason) int { return slices.Index(proxy.Reasons(), r) }

// exposition writes the text format.
type exposition struct{ text.Text }

// each writes a counter of the ports, with the given label beside the port.
func (e *exposition) each(ports []*port, label, value string, of func(*counters) *atomic.Uint64) {
	for _, p := range ports {
		e.Value(int64(of(&p.counters).Load()), "port", p.Name, label, value) //nolint:gosec // a count
	}
}

func (s *Server) metrics() []byte {
	e := &exposition{}
	inbound, outbound := s.ports[:len(s.cfg.Ports)], s.ports[len(s.cfg.Ports):]
	var guarded []*port
	if s.admission != nil {
		guarded = inbound
	}
	e.connections(inbound, outbound, guarded)
	e.Family("servingcert_proxy_connections", "gauge", "Open connections on all ports.")
	e.Value(int64(s.conns.len()))
	e.Family("servingcert_proxy_max_connections", "gauge", "Maximum number of open connections on all ports.")
	e.Value(int64(s.cfg.Limits.MaxConnections))
	if s.certs != nil {
		e.Family("servingcert_proxy_certificate_reloads_total", "counter", "Certificates loaded after the first.")
		e.Value(int64(s.certs.reloads.Load())) //nolint:gosec // a count
		e.Family("servingcert_proxy_certificate_files_invalid", "gauge", "1 while the certificate files cannot be loaded; the previous certificate, if any, is still served.")
		e.Value(one(s.certs.failing.Load()))
		if current := s.certs.current.Load(); current != nil {
			e.Family("servingcert_proxy_certificate_not_after_timestamp_seconds", "gauge", "Expiry of the served certificate.")
			e.Value(current.notAfter.Unix())
		}
	}
	if s.roots != nil {
		e.Family("servingcert_proxy_ca_reloads_total", "counter", "CA bundles loaded after the first, to verify servers.")
		e.Value(int64(s.roots.reloads.Load())) //nolint:gosec // a count
		e.Family("servingcert_proxy_ca_file_invalid", "gauge", "1 while the CA bundle cannot be loaded; servers are verified with the previous one, if any.")
		e.Value(one(s.roots.failing.Load()))
	}
	if s.admission != nil {
		e.guards(s, inbound)
	}
	if s.identity != nil {
		e.Family("servingcert_proxy_identity_file_invalid", "gauge", "1 while the file of --identity cannot be loaded; the previous identity is still presented to servers.")
		e.Value(one(s.identity.failing.Load()))
		if current := s.identity.current.Load(); current != nil {
			e.Family("servingcert_proxy_identity_not_after_timestamp_seconds", "gauge", "Expiry of the identity that is presented to servers.")
			e.Value(current.Certificate.Leaf.NotAfter.Unix())
		}
	}
	return e.Bytes()
}

// guards writes the metrics of guarded ports.
func (e *exposition) guards(s *Server, inbound []*port) {
	e.Family("servingcert_proxy_clients_watched_total", "counter", "Connections of clients that a port which watches would refuse, by port and reason: no_certificate, unverified, not_listed, plaintext.", "port", "reason")
	for i, reason := range proxy.Reasons() {
		e.each(inbound, "reason", string(reason), func(c *counters) *atomic.Uint64 { return &c.guard[i].watched })
	}
	e.Family("servingcert_proxy_clients_file_invalid", "gauge", "1 while the list of clients cannot be loaded; the previous list is still in force, or without one all clients are refused.")
	e.Value(one(s.admission.failing.Load()))
	e.Family("servingcert_proxy_client_ca_file_invalid", "gauge", "1 while the CA bundle for clients cannot be loaded; clients are verified with the previous one, if any.")
	e.Value(one(s.clientRoots.failing.Load()))
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// connections writes the counters of the ports. A port has only those that it can count. guarded are inbound ports that
// may be.
func (e *exposition) connections(inbound, outbound, guarded []*port) {
	all := slices.Concat(inbound, outbound)
	e.Family("servingcert_proxy_connections_total", "counter", "Served connections, by port and kind: tls or plaintext of clients, connect (to a Service, in the proxy's TLS) or connect_tls (to a Service, in the program's own TLS).", "port", "kind")
	e.each(inbound, "kind", "tls", func(c *counters) *atomic.Uint64 { return &c.tls })
	e.each(inbound, "kind", "plaintext", func(c *counters) *atomic.Uint64 { return &c.plaintext })
	e.each(outbound, "kind", "connect", func(c *counters) *atomic.Uint64 { return &c.connect })
	e.each(outbound, "kind", "connect_tls", func(c *counters) *atomic.Uint64 { return &c.connectTLS })
	e.Family("servingcert_proxy_connections_failed_total", "counter", "Connections that failed or were closed by the proxy, by port and reason: not_tls (plaintext on a port for TLS), handshake, handshake_timeout, upstream (no connection to the program), dns (no address of the Service), server (no connection to the server), verification (the server's certificate), server_handshake, evicted (without a completed handshake or data, for a newer one), refused (too many), idle, accept (the system has no resources), probe (closed by the client without a byte, or a look of the rotator); of guarded ports no_certificate, unverified (not the valid certificate of a client), not_listed, plaintext.", "port", "reason")
	e.each(inbound, "reason", "not_tls", func(c *counters) *atomic.Uint64 { return &c.notTLS })
	e.each(inbound, "reason", "handshake", func(c *counters) *atomic.Uint64 { return &c.handshakeErrors })
	e.each(inbound, "reason", "handshake_timeout", func(c *counters) *atomic.Uint64 { return &c.handshakeTimeouts })
	e.each(inbound, "reason", "upstream", func(c *counters) *atomic.Uint64 { return &c.upstreamErrors })
	e.each(outbound, "reason", "dns", func(c *counters) *atomic.Uint64 { return &c.dns })
	e.each(outbound, "reason", "server", func(c *counters) *atomic.Uint64 { return &c.server })
	e.each(outbound, "reason", "verification", func(c *counters) *atomic.Uint64 { return &c.verification })
	e.each(outbound, "reason", "server_handshake", func(c *counters) *atomic.Uint64 { return &c.serverHandshake })
	e.each(all, "reason", "evicted", func(c *counters) *atomic.Uint64 { return &c.evicted })
	e.each(all, "reason", "refused", func(c *counters) *atomic.Uint64 { return &c.refused })
	e.each(all, "reason", "idle", func(c *counters) *atomic.Uint64 { return &c.expired })
	e.each(all, "reason", "accept", func(c *counters) *atomic.Uint64 { return &c.acceptErrors })
	for i, reason := range proxy.Reasons() {
		e.each(guarded, "reason", string(reason), func(c *counters) *atomic.Uint64 { return &c.guard[i].refused })
	}
	e.each(all, "reason", "probe", func(c *counters) *atomic.Uint64 { return &c.probes })
}
