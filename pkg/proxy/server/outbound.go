package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// dialFunc is net.Dialer.DialContext.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// outbound is what an outbound port needs to connect to its server.
type outbound struct {
	proxy.Connect
	names *names
	one   dialFunc // dials an address
	// last is the address that worked last.
	last atomic.Pointer[netip.Addr]
}

// addOutbound adds the outbound ports. Those of one host share its lookups.
func (s *Server) addOutbound() {
	resolve, dial := s.cfg.Resolve, s.cfg.dial
	if resolve == nil {
		resolve = DNS
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}).DialContext
	}
	byHost := map[string]*names{}
	for _, c := range s.cfg.Connects {
		n := byHost[c.Host]
		if n == nil {
			n = newNames(c.Host+"."+s.cfg.ClusterDomain+".", resolve, s.cfg.Upstream, s.cfg.Clock)
			byHost[c.Host] = n
			s.names = append(s.names, n)
		}
		s.ports = append(s.ports, &port{
			Listen: proxy.Listen{Name: c.Name, Port: c.Local.Port()}, flag: "--connect", address: c.Local.String(),
			out: &outbound{Connect: c, names: n, one: dial},
		})
	}
}

// dial connects to the server: to its addresses in the order of the answer, the one that worked last first.
func (o *outbound) dial(ctx context.Context) (*net.TCPConn, error) {
	addresses, err := o.names.addresses(ctx)
	if err != nil {
		return nil, lookupError{err}
	}
	if last := o.last.Load(); last != nil {
		if i := slices.Index(addresses, *last); i > 0 {
			addresses = slices.Concat(addresses[i:i+1], addresses[:i], addresses[i+1:])
		}
	}
	var errs []error
	for _, address := range addresses {
		c, err := o.one(ctx, "tcp", netip.AddrPortFrom(address, o.Connect.Port).String())
		if err == nil {
			o.last.Store(&address)
			return c.(*net.TCPConn), nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// reach makes an outbound connection. It returns the first bytes of the client, and false if there is nothing to copy.
//
// The clients are programs of the pod: a listener on a loopback address gets no packets from outside, because the
// kernel drops those that arrive on another interface with such an address (RFC 1122, 3.2.1.3).
func (c *conn) reach() (first []byte, ok bool) {
	way := proxy.WayTLS
	if c.port.out.Mode != proxy.ModeAtOnce {
		var err error
		if first, way, err = c.chooseWay(); err != nil {
			if len(first) == 0 && !c.killed.Load() {
				c.port.counters.probes.Add(1)
			}
			return nil, false
		}
	}
	if !c.dial() {
		return nil, false
	}
	if way == proxy.WayThrough {
		c.port.counters.connectTLS.Add(1)
		return first, true
	}
	return first, c.secure(way == proxy.WayH2)
}

// chooseWay reads until the way of the connection is known. A client that has sent a few bytes, and no more in time, is
// wrapped in TLS like others.
func (c *conn) chooseWay() (first []byte, way proxy.Way, err error) {
	client, end := c.client.tcp.Load(), c.server.cfg.Limits.FirstByte
	deadline := func() { _ = client.SetReadDeadline(c.server.cfg.Clock().Add(end)) }
	if c.port.out.Mode == proxy.ModeEither {
		deadline()
	}
	first = make([]byte, 0, proxy.WayBytes)
	for way == proxy.WayUndecided {
		n, err := client.Read(first[len(first):proxy.WayBytes])
		if len(first) == 0 && n > 0 {
			deadline()
		}
		first = first[:len(first)+n]
		way = proxy.ChooseWay(first)
		switch {
		case err == nil || way != proxy.WayUndecided:
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF) && len(first) > 0:
			way = proxy.WayTLS
		default:
			return first, way, err
		}
	}
	_ = client.SetReadDeadline(time.Time{})
	return first, way, nil
}

// secure makes the TLS handshake with the server.
func (c *conn) secure(h2 bool) bool {
	upstream := c.upstream.tcp.Load()
	_ = upstream.SetDeadline(c.server.cfg.Clock().Add(c.server.cfg.Limits.Handshake))
	c.upstream.transport = &transport{TCPConn: upstream, most: mostOfServer}
	c.upstream.tls = tls.Client(c.upstream.transport, c.server.outbound(c.port.out.Host, h2))
	if err := c.upstream.tls.Handshake(); err != nil {
		if !c.killed.Load() {
			c.insecure(err)
		}
		c.refuse()
		return false
	}
	_ = upstream.SetDeadline(time.Time{})
	c.port.counters.connect.Add(1)
	return true
}

// outbound returns the configuration for connections to a host, with the identity of the pod.
func (s *Server) outbound(host string, h2 bool) *tls.Config {
	trusted := s.roots.current.Load()
	if s.identity == nil {
		return trusted.config(server{host: host, h2: h2})
	}
	identity := s.identity.current.Load()
	config := trusted.config(server{host, h2, identity.ID}).Clone() // which shares the sessions
	config.GetClientCertificate = identity.Present
	return config
}

// insecure counts and logs a failed handshake with the server.
func (c *conn) insecure(err error) {
	fields := []any{"port", c.port.Name, "server", c.upstream.tcp.Load().RemoteAddr().String(), "error", short(err)}
	if advice := proxy.Advice(err); advice != "" {
		fields = append(fields, "advice", advice)
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		c.port.counters.verification.Add(1)
		c.server.log.warn("the server's certificate is not valid: refused the connection", fields...)
		return
	}
	c.port.counters.serverHandshake.Add(1)
	c.server.log.warn("TLS handshake with the server failed: refused the connection", fields...)
}

// refusedByServer counts and logs that the server ended the connection with an alert. In TLS 1.3, it verifies the
// pod's identity after the handshake is completed here.
func (c *conn) refusedByServer(err error) {
	var peer *net.OpError
	if c.port.out == nil || !errors.As(err, &peer) || peer.Op != "remote error" || c.killed.Load() {
		return
	}
	c.insecure(err)
}

// unreachable counts and logs that the server was not reached.
func (c *conn) unreachable(err error) {
	o := c.port.out
	if isLookup(err) {
		c.port.counters.dns.Add(1)
		advice := "check that the Service exists, that --cluster-domain is right, and that the pod reaches its name servers"
		if errors.Is(err, proxy.ErrItself) {
			advice = "check the addresses that DNS has for the Service"
		}
		c.server.log.warn("cannot look up the Service: refused the connection", "port", c.port.Name, "host", o.names.host, "error", short(err), "advice", advice)
		return
	}
	c.port.counters.server.Add(1)
	c.server.log.warn("cannot connect to the server: refused the connection", "port", c.port.Name, "host", o.names.host, "error", short(err),
		"advice", "check that the Service has port "+strconv.Itoa(int(o.Connect.Port))+" and ready endpoints, and that no NetworkPolicy is in the way")
}

// longest is the maximum length of an error in the log: a server chooses parts of it.
const longest = 500

func short(err error) string {
	if text := err.Error(); len(text) > longest {
		return text[:longest] + "…"
	}
	return err.Error()
}
