// Package metricsserver serves the metrics of a process: over TLS, to clients that the API server
// authenticates and authorizes to get /metrics, or over plain HTTP on loopback.
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

// Path is the path of the metrics, for which clients need permission get.
const Path = "/metrics"

const (
	writeTimeout    = 30 * time.Second // from the headers to the end of the response, including the reviews
	shutdownTimeout = 5 * time.Second  // losing a scrape is harmless
)

// maxRequests is the maximum number of concurrent requests, each of which causes reviews by the API
// server. Others wait for maxWait, and then get status 503.
const (
	maxRequests = 4
	maxWait     = 10 * time.Second
)

// Config is the configuration of the server.
type Config struct {
	// Address is HOST:PORT, or 0: metrics are not served.
	Address string
	// CertDir contains tls.crt and tls.key, which may be created later, and may change. Until they
	// exist, TLS handshakes fail.
	CertDir string
	// Insecure serves plain HTTP without authentication.
	Insecure bool
	Gatherer prometheus.Gatherer
	// Port contains the limits and the log.
	Port port.Config
}

// Add listens on the address at once and makes the manager serve there, leading or not, before the
// caches have synced. It returns an error if it cannot listen.
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
		files.Load() // the manager starts files only after the caches have synced
		if err := mgr.Add(files); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		served.TLS = tlsConfig(files)
	}
	return managed.Add(mgr, served, cfg.Address, shutdownTimeout)
}

// gate applies the filter to a limited number of concurrent requests, and only to GET requests for Path without a
// query: the filter keeps thousands of refusals by path and method, which anyone with a token could fill the memory
// with. It closes the connections of clients that do not pass, and does not log them, as anyone could fill the log.
func gate(filter ctrlmetricsserver.Filter, next http.Handler) (http.Handler, error) {
	filtered, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Del("Connection")
		next.ServeHTTP(w, req)
	}))
	slots := semaphore.NewWeighted(maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Connection", "close")
		if refused(w, req) {
			return
		}
		ctx, cancel := context.WithTimeout(req.Context(), maxWait)
		defer cancel()
		if slots.Acquire(ctx, 1) != nil {
			http.Error(w, "too many requests at the same time", http.StatusServiceUnavailable)
			return
		}
		defer slots.Release(1)
		filtered.ServeHTTP(w, req)
	}), err
}

// refused answers every request but GET for Path without a query, and reports whether it did.
func refused(w http.ResponseWriter, req *http.Request) bool {
	switch {
	case req.URL.Path != Path:
		http.Error(w, "only "+Path+" is served", http.StatusNotFound)
	case req.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
	case req.URL.RawQuery != "":
		http.Error(w, "no query is allowed", http.StatusBadRequest)
	default:
		return false
	}
	return true
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
