// Package server is the TLS proxy. Inbound, it listens, terminates TLS and forwards to a program on the
// same pod's loopback. Outbound, it listens on loopback addresses and connects to Services with TLS.
// Package proxy has the decisions.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// Config configures a Server.
type Config struct {
	Ports []proxy.Listen
	// CertDir contains tls.crt and tls.key. It is read only if there are Ports.
	CertDir string
	// ClientCAFile contains the roots that verify clients, in PEM, and ClientsFile which clients the ports admit, as
	// proxy.ParseAdmission reads it. Both are read only if there are Ports and ClientsFile is set.
	ClientCAFile, ClientsFile string
	// Upstream are the addresses of the program, in the order in which they are dialled. Those of the pod are among them.
	Upstream []netip.Addr
	Connects []proxy.Connect
	// CAFile contains the roots that verify servers, in PEM. It is read only if there are Connects.
	CAFile string
	// IdentityFile contains what is presented to servers that request a client certificate, as proxy.ParseIdentity
	// reads it; empty: nothing. It is read only if there are Connects.
	IdentityFile string
	// ClusterDomain is the domain of Services in DNS.
	ClusterDomain string
	// Resolve looks up the addresses of an absolute name; the default is DNS.
	Resolve Resolver
	// Limits must have a positive MaxConnections.
	Limits proxy.Limits
	// Clock returns times with a monotonic reading, as time.Now does.
	Clock func() time.Time
	Log   *slog.Logger

	dial dialFunc // connects to servers instead of a net.Dialer; set by tests
}

// A Server is the proxy of one pod.
type Server struct {
	cfg   Config
	log   *limitedLog
	certs *certs // nil without inbound ports
	roots *roots // nil without outbound ports
	// Nil if no port may be guarded:
	admission   *admission
	clientRoots *clientRoots
	identity    *identity // nil without one
	names       []*names
	ports       []*port
	conns       registry
	running     sync.WaitGroup // goroutines of connections
	ready       atomic.Bool    // listening on all ports
	start       time.Time
	// now is a coarse time, from elapsed: reading the clock for each chunk of data would be a notable
	// part of the cost of forwarding.
	now atomic.Int64

	clientsMu sync.Mutex
	clients   *proxy.Clients
}

// port is one port with its counters.
type port struct {
	proxy.Listen // of an outbound port, only Name and Port
	// flag and address are what errors of listening name.
	flag, address string
	keepAlive     net.KeepAliveConfig
	listener      net.Listener
	upstream      *dialer   // of an inbound port
	out           *outbound // of an outbound port
	counters      counters
}

func (p *port) direction() direction {
	if p.out != nil {
		return out
	}
	return in
}

// dial connects to the upstream.
func (p *port) dial(ctx context.Context) (*net.TCPConn, error) {
	if p.out != nil {
		return p.out.dial(ctx)
	}
	return p.upstream.dial(ctx)
}

// New returns a Server. It does not read files or listen before Run.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, log: newLimitedLog(cfg.Log, cfg.Clock), clients: proxy.NewClients(cfg.Clock(), cfg.Ports),
		conns: registry{most: cfg.Limits.MaxConnections, bothWay: len(cfg.Ports) > 0 && len(cfg.Connects) > 0}, start: cfg.Clock(),
	}
	s.conns.init()
	if len(cfg.Ports) > 0 {
		s.certs = newCerts(cfg.CertDir, s.log)
	}
	if len(cfg.Ports) > 0 && cfg.ClientsFile != "" {
		s.admission = newAdmission(cfg.ClientsFile, s.log, s.enforce)
		s.clientRoots = newClientRoots(cfg.ClientCAFile, s.log)
	}
	for _, l := range cfg.Ports {
		s.ports = append(s.ports, &port{
			Listen: l, flag: "--listen", address: ":" + strconv.Itoa(int(l.Port)), keepAlive: keepAlive, upstream: newDialer(cfg.Upstream, l.Upstream),
		})
	}
	if len(cfg.Connects) > 0 {
		s.roots = newRoots(cfg.CAFile, s.log)
		if cfg.IdentityFile != "" {
			s.identity = newIdentity(cfg.IdentityFile, cfg.Clock, s.log)
		}
		s.addOutbound()
	}
	return s
}

// keepAlive detects peers that are gone. Go's default, a probe every 15 s, would cost more than the idle connections
// themselves.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Minute, Interval: 15 * time.Second, Count: 8}

// Run waits for the files that it needs, listens, and serves until ctx ends. It returns once all connections have
// ended, or were closed after Limits.Drain. It returns an error if it cannot listen on a port, or if the identity is
// not valid.
func (s *Server) Run(ctx context.Context) error {
	if ok, err := s.load(ctx); !ok {
		return err
	}
	defer s.close()
	for _, p := range s.ports {
		if err := s.listen(ctx, p); err != nil {
			return err
		}
	}
	var own, accepting sync.WaitGroup
	stop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	for _, p := range s.ports {
		accepting.Go(func() { s.accept(p) })
	}
	for _, w := range s.watched() {
		own.Go(func() { w.follow(stop) })
	}
	for _, n := range s.names {
		own.Go(func() { n.run(stop) })
	}
	own.Go(func() { s.sweep(stop) })
	s.ready.Store(true)
	s.log.info("serving", "ports", len(s.ports), "maxConnections", s.cfg.Limits.MaxConnections)
	<-ctx.Done()
	s.ready.Store(false)
	s.close()
	accepting.Wait()
	s.drain()
	cancel()
	own.Wait()
	return nil
}

// load loads the files, and waits for those that may come late. It returns false if ctx ends before.
func (s *Server) load(ctx context.Context) (ok bool, err error) {
	if s.identity != nil {
		if err := s.identity.begin(); err != nil {
			return false, err
		}
	}
	if s.admission != nil {
		s.enforce() // nobody is admitted yet
		s.admission.begin()
	}
	for _, w := range s.watched() {
		late := s.admission == nil || w != &s.admission.watched
		if late && !w.wait(ctx) {
			return false, nil
		}
	}
	return true, nil
}

// watched returns the files that the Server needs.
func (s *Server) watched() (all []*watched) {
	if s.certs != nil {
		all = append(all, &s.certs.watched)
	}
	if s.roots != nil {
		all = append(all, &s.roots.watched)
	}
	if s.admission != nil {
		all = append(all, &s.admission.watched, &s.clientRoots.watched)
	}
	if s.identity != nil {
		all = append(all, &s.identity.watched)
	}
	return all
}

func (s *Server) listen(ctx context.Context, p *port) error {
	config := net.ListenConfig{KeepAlive: -1, KeepAliveConfig: p.keepAlive}
	listener, err := config.Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("%s %s: cannot listen on port %d, is it a port of the program? %w", p.flag, p.Name, p.Port, err)
	}
	p.listener = listener
	return nil
}

// close closes the listeners. It may be called twice.
func (s *Server) close() {
	for _, p := range s.ports {
		if p.listener != nil {
			_ = p.listener.Close()
		}
	}
}

// acceptPause is the pause after an error of accept, for lack of memory or descriptors. makeRoom has closed
// a connection before.
const acceptPause = 10 * time.Millisecond

func (s *Server) accept(p *port) {
	for {
		s.conns.wait()
		accepted, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.counters.acceptErrors.Add(1)
			s.log.warn("cannot accept a connection", "port", p.Name, "error", err)
			s.makeRoom(nil)
			time.Sleep(acceptPause)
			continue
		}
		s.admit(p, accepted.(*net.TCPConn))
	}
}

// makeRoom closes a connection that is not established, or whose client has ended. It returns false if there is none, or
// if it is c.
func (s *Server) makeRoom(c *conn) bool {
	victim := s.conns.evict()
	if victim == nil {
		return false
	}
	victim.port.counters.evicted.Add(1)
	victim.kill(false)
	return victim != c
}

// admit serves a connection. At MaxConnections, it closes one that is not established, or whose client has ended, or
// refuses the new one if there is none.
func (s *Server) admit(p *port, client *net.TCPConn) {
	c := newConn(s, p, client)
	victim, ok := s.conns.add(c)
	if victim != nil {
		victim.port.counters.evicted.Add(1)
		s.log.warn("too many connections: closed one that was not established, or whose client had ended its side", "port", victim.port.Name)
		victim.kill(false)
	}
	if !ok {
		p.counters.refused.Add(1)
		s.log.warn("too many connections: refused a new one", "port", p.Name)
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	s.running.Add(1)
	go c.serve()
}
