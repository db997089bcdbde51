package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Limits of a connection. Whoever reaches the port can make one. The API server waits 5 s
// for an answer (timeoutSeconds of the webhook's configuration).
const (
	readHeaderTimeout = 5 * time.Second // of the TLS handshake too
	readTimeout       = 10 * time.Second
	writeTimeout      = 20 * time.Second // since the request was read, to work on it included
	idleTimeout       = 90 * time.Second // as that of the API server's client
	maxHeader         = 16 << 10         // bytes; the API server sends some hundred
	shutdownTimeout   = time.Minute
)

// server is the webhook server of controller-runtime with limits of its own: that one waits
// for a request, and for whoever reads the answer, as long as they like.
type server struct {
	webhook.Server
	address string
	tls     *tls.Config
	http    *http.Server
}

// newServer returns a server that listens on the address with the TLS configuration, and
// ends with the drain.
func newServer(host string, port int, config *tls.Config, d *drain, log logr.Logger) *server {
	mux := http.NewServeMux()
	return &server{
		Server:  webhook.NewServer(webhook.Options{WebhookMux: mux}), // registers and counts
		address: net.JoinHostPort(host, strconv.Itoa(port)),
		tls:     config,
		http: &http.Server{
			Handler:           d.lastAnswers(mux),
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			// Handshakes that fail, which anybody can cause as often as they like.
			ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelDebug),
		},
	}
}

// Start serves until ctx ends, and then what has begun.
func (s *server) Start(ctx context.Context) error {
	listener, err := tls.Listen("tcp", s.address, s.tls)
	if err != nil {
		return fmt.Errorf("serve reviews: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *server) serve(ctx context.Context, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve reviews: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("end serving reviews: %w", err)
	}
	return nil
}
