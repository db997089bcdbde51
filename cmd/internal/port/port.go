// Package port serves HTTP on a port that anybody may reach. The addresses of the API server,
// of kubelets and of Prometheus are not known to a process, nor to a NetworkPolicy on most
// clusters: so nobody is refused, and what all connections cost together is bounded. When
// there is no room for a connection, it takes the place of the one that is of least use (see
// victim).
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
	readHeaderTimeout = 5 * time.Second // of the TLS handshake too
	readTimeout       = 10 * time.Second
	idleTimeout       = 90 * time.Second // as that of the API server's client, and longer than the usual interval between two scrapes
)

// Limits of Config.MaxConnections. A search for the connection to be closed looks at all.
const (
	MinConnections     = 16
	DefaultConnections = 512
	MaxConnections     = 10_000
)

// Config describes a port.
type Config struct {
	// Name says in errors and logs what is served.
	Name    string
	Handler http.Handler
	// TLS is nil for plain HTTP.
	TLS *tls.Config
	// MaxConnections is how many there are at a time.
	MaxConnections int
	// WriteTimeout is the time to answer a request, since its headers were read.
	WriteTimeout time.Duration
	// OneRequest closes each connection after its first answer.
	OneRequest bool
	// Evicted counts the connections that were closed for others; it may be nil.
	Evicted interface{ Inc() }
	Log     logr.Logger
}

// Server is an HTTP server for one port.
type Server struct {
	HTTP *http.Server
	cfg  Config
}

// New returns a server. HTTP must be served on what Listen returns.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, HTTP: &http.Server{
		Handler:           leaveBodies(cfg.Handler),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		ConnContext:       withStop,
		// Handshakes that fail, which anybody can cause as often as they like.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(cfg.Log), slog.LevelDebug),
	}}
	s.HTTP.SetKeepAlivesEnabled(!cfg.OneRequest)
	return s
}

// Listen listens on the address, HOST:PORT. It is called once.
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

// Serve listens on the address and serves there until ctx ends; what has begun then is cut off. It
// returns when it listens. It is for programs without a manager.
func (s *Server) Serve(ctx context.Context, address string) error {
	l, err := s.Listen(address)
	if err != nil {
		return err
	}
	go func() { _ = s.HTTP.Serve(l) }()
	context.AfterFunc(ctx, func() { _ = s.HTTP.Close() })
	return nil
}

// evicted is logged for debugging alone: anybody can cause it as often as they like.
func (s *Server) evicted(peer netip.Addr) {
	if s.cfg.Evicted != nil {
		s.cfg.Evicted.Inc()
	}
	s.cfg.Log.V(1).Info("closed a connection for another", "port", s.cfg.Name, "peer", peer)
}

// smallConnections and smallTimeout bound the one port of a small program: a scraper, a probe and a person.
const (
	smallConnections = 64
	smallTimeout     = 10 * time.Second
)

// Small returns the server of a small program's metrics and readiness, over plain HTTP.
func Small(handler http.Handler, log *slog.Logger) *Server {
	return New(Config{
		Name: "metrics", Handler: handler, MaxConnections: smallConnections, WriteTimeout: smallTimeout, Log: logr.FromSlogHandler(log.Handler()),
	})
}
