package metricsserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/cmd/internal/port"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// writePair writes a certificate for me.test and its key, and returns the CA that signed it.
func writePair(t *testing.T, dir string) (caPEM []byte) {
	t.Helper()
	ca, err := certs.New(dir, "ca", "test")
	require.NoError(t, err)
	_, err = ca.Issue("tls", &x509.Certificate{DNSNames: []string{"me.test"}})
	require.NoError(t, err)
	return ca.CAPEM
}

// serve runs a manager with only the server. Its API server is down.
func serve(t *testing.T, cfg Config) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "test_answer"}, func() float64 { return 42 }))
	cfg.Gatherer = registry
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{Metrics: ctrlmetricsserver.Options{BindAddress: "0"}, Logger: cfg.Port.Log})
	require.NoError(t, err)
	require.NoError(t, Add(mgr, cfg))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
}

func bounds(log logr.Logger) port.Config {
	return port.Config{Name: "metrics", MaxConnections: port.DefaultConnections, Evicted: prometheus.NewCounter(prometheus.CounterOpts{Name: "evicted"}), Log: log}
}

// get makes a request on a new connection, to a server with this certificate.
func get(t *testing.T, url, token string, caPEM []byte) (status int, body string, err error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(caPEM)
	transport := &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "me.test"}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	assert.Equal(t, 1, response.ProtoMajor)
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func TestPlainHTTP(t *testing.T) {
	address := fmt.Sprint("127.0.0.1:", process.PortFor(t, "127.0.0.1"))
	serve(t, Config{Address: address, Insecure: true, Port: bounds(logr.Discard())})
	status, body, err := get(t, "http://"+address+Path, "", nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "test_answer 42\n")
	status, _, err = get(t, "http://"+address+"/", "", nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusNotFound, status)
}

func TestTheCertificateAppearsAndChanges(t *testing.T) {
	var log harness.Log
	address, dir := fmt.Sprint("127.0.0.1:", process.PortFor(t, "127.0.0.1")), filepath.Join(t.TempDir(), "later")
	url := "https://" + address + Path
	serve(t, Config{Address: address, CertDir: dir, Port: bounds(funcr.New(func(_, line string) { _, _ = log.Write([]byte(line + "\n")) }, funcr.Options{}))})

	_, _, err := get(t, url, "", nil)
	require.ErrorContains(t, err, "remote error: tls: internal error", "the connection is accepted, and the handshake fails")
	assert.Contains(t, log.String(), "waiting for the certificate")

	for range 2 {
		ca := writePair(t, dir)
		harness.Eventually(t, func() error {
			status, body, err := get(t, url, "", ca)
			if err == nil && status != http.StatusUnauthorized {
				err = errors.New(body)
			}
			return err
		})
	}
	status, body, err := get(t, "http://"+address+Path, "", nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, status, "plain HTTP: %s", body)
	assert.NotContains(t, body, "test_answer")
	assert.NotContains(t, log.String(), "handshake", "failed handshakes are not logged")
}

func TestWithoutTheAPIServerRequestsAreDenied(t *testing.T) {
	var log harness.Log
	address, dir := fmt.Sprint("127.0.0.1:", process.PortFor(t, "127.0.0.1")), t.TempDir()
	ca := writePair(t, dir)
	serve(t, Config{Address: address, CertDir: dir, Port: bounds(funcr.New(func(_, line string) { _, _ = log.Write([]byte(line + "\n")) }, funcr.Options{Verbosity: 4}))})
	status, body, err := get(t, "https://"+address+Path, "very-secret-token", ca)
	require.NoError(t, err)
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Equal(t, "Authentication failed\n", body)
	assert.NotContains(t, log.String(), "very-secret-token")
}

func TestAnAddressInUse(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{Metrics: ctrlmetricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	for _, insecure := range []bool{true, false} {
		err = Add(mgr, Config{Address: listener.Addr().String(), CertDir: t.TempDir(), Insecure: insecure, Port: bounds(logr.Discard()), Gatherer: prometheus.NewRegistry()})
		assert.ErrorContains(t, err, "serve metrics: listen tcp "+listener.Addr().String())
	}
	assert.NoError(t, Add(mgr, Config{Address: "0"}))
}

func TestTLSConfig(t *testing.T) {
	config := tlsConfig(nil)
	assert.Equal(t, uint16(tls.VersionTLS12), config.MinVersion)
	assert.Equal(t, []string{"http/1.1"}, config.NextProtos)
	assert.Less(t, maxWait, writeTimeout, "a client that waited gets a response")
}
