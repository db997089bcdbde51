package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
)

// clientPair issues the certificate of a client with a common name and DNS names.
func clientPair(t *testing.T, ca *certs.Authority, commonName string, usage x509.ExtKeyUsage, dnsNames ...string) *tls.Certificate {
	t.Helper()
	made, err := ca.Issue(commonName, &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, DNSNames: dnsNames, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(made.CertPEM, made.KeyPEM)
	require.NoError(t, err)
	return &pair
}

// demanding is a running server that requires client certificates.
type demanding struct {
	t       *testing.T
	ca      *clientCA
	log     *bytes.Buffer
	address string
	roots   *x509.CertPool
}

func newDemanding(t *testing.T, file string, names ...string) *demanding {
	t.Helper()
	d := &demanding{t: t, log: &bytes.Buffer{}, roots: x509.NewCertPool()}
	d.ca = newClientCA(file, names, funcr.New(func(_, args string) { d.log.WriteString(args + "\n") }, funcr.Options{}))
	serving, err := certs.New(t.TempDir(), "ca", "serving")
	require.NoError(t, err)
	d.roots.AppendCertsFromPEM(serving.CAPEM)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*clientPair(t, serving, "webhook", x509.ExtKeyUsageServerAuth, "webhook")}}
	d.ca.demand(config)
	s := newServer("127.0.0.1", 0, config, &drain{}, bounds())
	s.Register(admission.Path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reviewed") }))
	listener, err := s.port.Listen(s.address)
	require.NoError(t, err)
	d.address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	return d
}

// call makes requests with this client certificate, or none if it is nil, and returns the error.
func (d *demanding) call(pair *tls.Certificate, version uint16) (string, error) {
	config := &tls.Config{
		RootCAs: d.roots, ServerName: "webhook", MinVersion: tls.VersionTLS12, MaxVersion: version,
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	if pair != nil {
		// Certificates would omit one that was not issued by a CA that the server names.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	var body []byte
	for range 2 { // the second would resume the session of the first
		resp, err := client.Post("https://"+d.address+admission.Path, "application/json", http.NoBody)
		if err != nil {
			return "", err
		}
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return "", err
		}
		if resp.TLS.DidResume {
			return "", assert.AnError
		}
	}
	return string(body), nil
}

func TestClientsAreAuthenticated(t *testing.T) {
	ours, err := certs.New(t.TempDir(), "ca", "clients")
	require.NoError(t, err)
	others, err := certs.New(t.TempDir(), "ca", "clients")
	require.NoError(t, err)
	const user = x509.ExtKeyUsageClientAuth
	for _, test := range []struct {
		name    string
		names   []string
		pair    *tls.Certificate
		allowed bool
	}{
		{"any certificate of the CA", nil, clientPair(t, ours, "apiserver", user), true},
		{"none", nil, nil, false},
		{"one of another CA", nil, clientPair(t, others, "apiserver", user), false},
		{"one for servers", nil, clientPair(t, ours, "apiserver", x509.ExtKeyUsageServerAuth), false},
		{"its common name", []string{"other", "apiserver"}, clientPair(t, ours, "apiserver", user), true},
		{"its DNS name", []string{"apiserver.example.com"}, clientPair(t, ours, "x", user, "apiserver.example.com"), true},
		{"another name", []string{"apiserver"}, clientPair(t, ours, "system:node:n1", user), false},
		{"a part of the name", []string{"apiserver"}, clientPair(t, ours, "apiserver2", user), false},
		{"the name, of another CA", []string{"apiserver"}, clientPair(t, others, "apiserver", user), false},
		{"no certificate for a name", []string{"apiserver"}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDemanding(t, ours.CAFile, test.names...)
			d.ca.load()
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				answer, err := d.call(test.pair, version)
				if test.allowed {
					require.NoError(t, err)
					assert.Equal(t, "reviewed", answer)
				} else {
					require.Error(t, err)
					assert.NotErrorIs(t, err, assert.AnError)
				}
			}
		})
	}
}

func TestTheClientCAChanges(t *testing.T) {
	first, err := certs.New(t.TempDir(), "ca", "first")
	require.NoError(t, err)
	second, err := certs.New(t.TempDir(), "ca", "second")
	require.NoError(t, err)
	ofFirst, ofSecond := clientPair(t, first, "apiserver", x509.ExtKeyUsageClientAuth), clientPair(t, second, "apiserver", x509.ExtKeyUsageClientAuth)
	file := filepath.Join(t.TempDir(), "ca.crt")
	d := newDemanding(t, file)
	holds := func(what string, content []byte, firstMay, secondMay bool) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, content, 0o600))
		d.ca.load()
		_, err := d.call(ofFirst, tls.VersionTLS13)
		assert.Equal(t, firstMay, err == nil, "%s: %v", what, err)
		_, err = d.call(ofSecond, tls.VersionTLS13)
		assert.Equal(t, secondMay, err == nil, "%s: %v", what, err)
	}

	d.ca.load()
	d.ca.load()
	require.ErrorIs(t, d.ca.loaded(), errNoClientCA)
	_, err = d.call(ofFirst, tls.VersionTLS13)
	require.Error(t, err, "the system's CAs are not trusted")
	assert.Equal(t, 1, bytes.Count(d.log.Bytes(), []byte("waiting for the client CA")), "logged once: %s", d.log)

	holds("a file without a certificate", []byte("x"), false, false)
	holds("the first", first.CAPEM, true, false)
	require.NoError(t, d.ca.loaded())
	holds("both, while one replaces the other", append(bytes.Clone(first.CAPEM), second.CAPEM...), true, true)
	holds("the second", second.CAPEM, false, true)
	holds("a file that is being written", first.CAPEM[:40], false, true)
	assert.Contains(t, d.log.String(), "using the previous one")
	require.NoError(t, d.ca.loaded())
}

func TestWrongClientFlags(t *testing.T) {
	dir := t.TempDir()
	valid := Config{CertDir: "x", Port: 1, DefaultMode: "args", UnknownPrograms: "files", TrustSource: "configmap"}
	with := func(file string, names ...string) Config {
		c := valid
		c.ClientCAFile, c.ClientNames = file, names
		return c
	}
	assert.ErrorContains(t, with("", "apiserver").validate(), "--client-names: requires --client-ca-file")
	assert.ErrorContains(t, with("x", "a", "").validate(), `--client-names: "a,": must be names of certificates, separated by commas`)
	assert.ErrorContains(t, with(dir).validate(), "is a directory: must be a PEM file with certificates")
	assert.NoError(t, with("not-there-yet", "a").validate())
}
