// Package port serves HTTP on a port that anyone may reach. A process does not know the addresses of
// the API server, kubelets and Prometheus, nor does a NetworkPolicy on most clusters. So no client is
// refused, and the total cost of all connections is bounded: if there is no room, a new connection
// replaces the least useful one (see victim).
package port

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
)

// Limits of a connection.
const (
	readHeaderTimeout = 5 * time.Second // includes the TLS handshake
	readTimeout       = 10 * time.Second
	idleTimeout       = 90 * time.Second // as in the API server's client, and longer than the usual scrape interval
)

// Limits of Config.MaxConnections. Choosing a victim examines all connections.
const (
	MinConnections     = 16
	DefaultConnections = 512
	MaxConnections     = 10_000
)

// Config describes a port.
type Config struct {
	// Name is the name of the port in errors and logs.
	Name    string
	Handler http.Handler
	// TLS is nil for plain HTTP.
	TLS *tls.Config
	// MaxConnections is the maximum number of connections.
	MaxConnections int
	// WriteTimeout is the time to answer a request, from the end of its headers.
	WriteTimeout time.Duration
	// OneRequest closes each connection after its first answer.
	OneRequest bool
	// Evicted counts the connections that were closed for others; may be nil.
	Evicted interface{ Inc() }
	Log     logr.Logger
}

// Server is an HTTP server for one port.
type Server struct {
	HTTP *http.Server
	cfg  Config
}

// New returns a server. HTTP must be served on the listener that Listen returns.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, HTTP: &http.Server{
		Handler:           leaveBodies(cfg.Handler),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		ConnContext:       withStop,
		// Failed handshakes, which anyone can cause at any rate.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(cfg.Log), slog.LevelDebug),
	}}
	s.HTTP.SetKeepAlivesEnabled(!cfg.OneRequest)
	return s
}

// Listen listens on the address, HOST:PORT. It must be called once.
func (s *Server) Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", s.cfg.Name, err)
	}
	bounded := newListener(l, s.cfg.MaxConnections, s.evicted)
	s.HTTP.ConnState = bounded.follow
	if s.cfg.TLS == nil {
		return bounded, nil
	}
	return tls.NewListener(bounded, s.cfg.TLS), nil
}

// Serve listens on the address, and serves until ctx ends, which cuts off requests in flight. It returns
// once it listens. It is for programs without a manager.
func (s *Server) Serve(ctx context.Context, address string) error {
	l, err := s.Listen(address)
	if err != nil {
		return err
	}
	go func() { _ = s.HTTP.Serve(l) }()
	context.AfterFunc(ctx, func() { _ = s.HTTP.Close() })
	return nil
}

// evicted logs at debug level only: anyone can cause it at any rate.
func (s *Server) evicted(peer netip.Addr) {
	if s.cfg.Evicted != nil {
		s.cfg.Evicted.Inc()
	}
	s.cfg.Log.V(1).Info("closed a connection for another", "port", s.cfg.Name, "peer", peer)
}

// smallConnections and smallTimeout are the limits of a small program's port, for a scraper, a probe and a person.
const (
	smallConnections = 64
	smallTimeout     = 10 * time.Second
)

// Small returns the server of a small program's metrics and readiness over plain HTTP.
func Small(handler http.Handler, log *slog.Logger) *Server {
	return New(Config{
		Name: "metrics", Handler: handler, MaxConnections: smallConnections, WriteTimeout: smallTimeout, Log: logr.FromSlogHandler(log.Handler()),
	})
}
