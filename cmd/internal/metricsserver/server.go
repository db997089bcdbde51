// Package metricsserver serves the metrics of a process: over TLS, to those whom the
// API server knows and RBAC lets get /metrics, or over plain HTTP on loopback.
package metricsserver

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

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

// maxScrapes is how many authorised requests are answered at the same time. The others
// get HTTP 503.
const maxScrapes = 4

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
		ask, err := newReviewer(mgr)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		served.Handler = newGate(ask, served.Log, served.Handler)
		files := certfiles.New(cfg.CertDir, served.Log)
		files.Load() // the manager starts files after the caches, which may wait
		if err := mgr.Add(files); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		served.TLS = tlsConfig(files)
	}
	return managed.Add(mgr, served, cfg.Address, shutdownTimeout)
}

func newReviewer(mgr manager.Manager) (reviewer, error) {
	authentication, err := authenticationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return reviewer{}, err
	}
	authorization, err := authorizationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return reviewer{}, err
	}
	return reviewer{authentication, authorization}, nil
}

func metrics(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(Path, promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes}))
	return mux
}

func tlsConfig(files *certfiles.Files) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: files.GetCertificate,
	}
}
