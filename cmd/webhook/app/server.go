package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/servingcert/servingcert/cmd/internal/port"
)

const (
	// writeTimeout is the time to read a review, decide and write the answer. The API server
	// waits 5 s (timeoutSeconds of the webhook's configuration).
	writeTimeout    = 20 * time.Second
	shutdownTimeout = time.Minute
)

// server is controller-runtime's webhook server on a port with limits: that one waits without limit
// for a request, and for a client to read the answer.
type server struct {
	webhook.Server
	address string
	port    *port.Server
}

// newServer returns a server for the address, TLS configuration and limits, which closes
// connections during the drain.
func newServer(host string, number int, config *tls.Config, d *drain, bounds port.Config) *server {
	mux := http.NewServeMux()
	bounds.Handler, bounds.TLS, bounds.WriteTimeout = d.lastAnswers(mux), config, writeTimeout
	return &server{
		Server:  webhook.NewServer(webhook.Options{WebhookMux: mux}), // registers handlers and counts requests
		address: net.JoinHostPort(host, strconv.Itoa(number)),
		port:    port.New(bounds),
	}
}

// Start serves until ctx ends, and then completes the requests in flight.
func (s *server) Start(ctx context.Context) error {
	listener, err := s.port.Listen(s.address)
	if err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

func (s *server) serve(ctx context.Context, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- s.port.HTTP.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve AdmissionReviews: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.port.HTTP.Shutdown(grace); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop serving AdmissionReviews: %w", err)
	}
	return nil
}
