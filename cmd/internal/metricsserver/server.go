// Package metricsserver serves the metrics of a process: over TLS, to those whom the
// API server knows and RBAC lets get /metrics, or over plain HTTP on loopback.
package metricsserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/cmd/internal/certfiles"
	"github.com/servingcert/servingcert/cmd/internal/port"
	"github.com/servingcert/servingcert/cmd/internal/port/managed"
)

// Path is where the metrics are, and what RBAC is asked about.
const Path = "/metrics"

const (
	writeTimeout    = 30 * time.Second // since the headers were read: to ask the API server, to gather and to send
	shutdownTimeout = 5 * time.Second  // nothing is lost with a scrape
)

// maxRequests is how many requests are answered at the same time. The API server is asked about
// each, whoever sends it. The others wait for maxWait, and get HTTP 503.
const (
	maxRequests = 4
	maxWait     = 10 * time.Second
)

// Config says where and to whom metrics are served.
type Config struct {
	// Address is HOST:PORT, or 0: metrics are not served.
	Address string
	// CertDir contains tls.crt and tls.key. They may appear later, and may change. Until
	// they exist, connections are accepted and the TLS handshake fails.
	CertDir string
	// Insecure serves over plain HTTP, to anybody who can reach the address.
	Insecure bool
	Gatherer prometheus.Gatherer
	// Port has the bounds and the log.
	Port port.Config
}

// Add listens on the address at once and has the manager serve there, whether the process
// leads or not, and before the caches have synced. It returns an error if the address
// cannot be listened on.
func Add(mgr manager.Manager, cfg Config) error {
	if cfg.Address == "0" {
		return nil
	}
	served := cfg.Port
	served.Handler, served.WriteTimeout = metrics(cfg.Gatherer), writeTimeout
	if !cfg.Insecure {
		authorized, err := filters.WithAuthenticationAndAuthorization(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		if served.Handler, err = gate(authorized, served.Handler); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		files := certfiles.New(cfg.CertDir, served.Log)
		files.Load() // the manager starts files after the caches, which may wait
		if err := mgr.Add(files); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		served.TLS = tlsConfig(files)
	}
	return managed.Add(mgr, served, cfg.Address, shutdownTimeout)
}

// gate lets those pass whom the filter lets pass, a few at a time. It keeps the connections of no others,
// and logs nothing about them: whoever reaches the port could fill the log.
func gate(filter ctrlmetricsserver.Filter, next http.Handler) (http.Handler, error) {
	filtered, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Del("Connection")
		next.ServeHTTP(w, req)
	}))
	slots := semaphore.NewWeighted(maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), maxWait)
		defer cancel()
		w.Header().Set("Connection", "close")
		if slots.Acquire(ctx, 1) != nil {
			http.Error(w, "too many requests at the same time", http.StatusServiceUnavailable)
			return
		}
		defer slots.Release(1)
		filtered.ServeHTTP(w, req)
	}), err
}

func metrics(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(Path, promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	return mux
}

func tlsConfig(files *certfiles.Files) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: files.GetCertificate,
	}
}
