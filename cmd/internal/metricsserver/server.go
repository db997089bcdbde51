// Package metricsserver serves the metrics of a process: over TLS, to those whom the
// API server knows and RBAC lets get /metrics, or over plain HTTP on loopback.
package metricsserver

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/cmd/internal/certfiles"
)

// Path is where the metrics are, and what RBAC is asked about.
const Path = "/metrics"

// Limits of a connection. Whoever reaches the port can make one.
const (
	readHeaderTimeout = 5 * time.Second // of the TLS handshake too
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second // since the headers were read: to ask the API server, to gather and to send
	idleTimeout       = 90 * time.Second // longer than the usual interval between two scrapes
	maxHeader         = 16 << 10         // bytes; a token of a ServiceAccount has about one thousand
	shutdownTimeout   = 5 * time.Second  // nothing is lost with a scrape
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
	Log      logr.Logger
}

// Add listens on the address at once and has the manager serve there, whether the process
// leads or not, and before the caches have synced. It returns an error if the address
// cannot be listened on.
func Add(mgr manager.Manager, cfg Config) error {
	if cfg.Address == "0" {
		return nil
	}
	handler := metrics(cfg.Gatherer)
	var files *certfiles.Files
	if !cfg.Insecure {
		ask, err := newReviewer(mgr)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		handler = newGate(ask, cfg.Log, handler)
		files = certfiles.New(cfg.CertDir, cfg.Log)
		files.Load() // the manager starts files after the caches, which may wait
		if err := mgr.Add(files); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
	}
	listener, err := net.Listen("tcp", cfg.Address)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	if files != nil {
		listener = tls.NewListener(listener, tlsConfig(files))
	}
	timeout := shutdownTimeout
	return mgr.Add(&manager.Server{Name: "metrics", Server: newServer(handler, cfg.Log), Listener: listener, ShutdownTimeout: &timeout})
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

func newServer(handler http.Handler, log logr.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// Handshakes that fail, which anybody can cause as often as they like.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelDebug),
	}
}
