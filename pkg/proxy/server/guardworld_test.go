package server

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// clientCA is a CA for clients.
type clientCA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

const (
	domain = "example.com"
	cart   = "spiffe://example.com/ns/shop/sa/cart"
	other  = "spiffe://example.com/ns/shop/sa/other"
)

func newClientCA(t testing.TB, n int) *clientCA {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, n, pki.ForClients(domain), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
	require.NoError(t, err)
	return &clientCA{root, key}
}

func (a *clientCA) pem() []byte { return pki.EncodeCertificates(a.cert) }

// issue returns a certificate of a client.
func (a *clientCA) issue(t testing.TB, uri string, change ...func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	parsed, err := url.Parse(uri)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{parsed},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// bundle returns what the kubelet writes to credentialBundlePath.
func bundle(t testing.TB, c *tls.Certificate) []byte {
	t.Helper()
	key, err := pki.EncodeKey(c.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	for _, der := range c.Certificate {
		cert, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		key = append(key, pki.EncodeCertificates(cert)...)
	}
	return key
}

// replace replaces a file, as the kubelet does.
func replace(t testing.TB, file string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", content, 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// guarded is a world with guarded ports.
type guarded struct {
	*world
	ca            *clientCA
	roots, listed string // files
}

// startGuarded runs a Server with a list of clients in front of a program.
func startGuarded(t testing.TB, program uint16, list string, change ...func(*Config)) *guarded {
	t.Helper()
	g := &guarded{ca: newClientCA(t, 1), roots: filepath.Join(t.TempDir(), "clients-ca.crt"), listed: filepath.Join(t.TempDir(), "clients")}
	replace(t, g.roots, g.ca.pem())
	replace(t, g.listed, opening(list))
	g.world = start(t, program, append([]func(*Config){func(c *Config) { c.ClientCAFile, c.ClientsFile = g.roots, g.listed }}, change...)...)
	return g
}

// opening returns a valid list with the ports that it does not have, which it opens. Without an entry, a port is closed.
func opening(list string) []byte {
	if strings.TrimSpace(list) != "" && !strings.Contains(list, "=") || len(list) > proxy.MaxAdmission {
		return []byte(list) // not valid
	}
	for _, port := range []string{strict, both} {
		if !strings.Contains(list, port+"=") {
			list = strings.TrimPrefix(list+";"+port+"=open", ";")
		}
	}
	return []byte(list)
}

// list replaces the list of clients, and waits until it is in force.
func (g *guarded) list(text string) {
	g.t.Helper()
	before := g.admission.reloads.Load()
	replace(g.t, g.listed, opening(text))
	g.eventually("the list is loaded", func() bool { return g.admission.reloads.Load() > before })
}

func presenting(c *tls.Certificate, change ...func(*tls.Config)) *tls.Config {
	config := clientConfig()
	if c != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
	}
	for _, f := range change {
		f(config)
	}
	return config
}

func resuming(c *tls.Config) {
	c.ClientSessionCache, c.ServerName = tls.NewLRUClientSessionCache(1), "web.shop.svc"
}

func version12(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }

// as connects to a port with a certificate.
func (g *guarded) as(c *tls.Certificate, name string, change ...func(*tls.Config)) *tls.Conn {
	g.t.Helper()
	return tls.Client(g.dial(name), presenting(c, change...))
}

// admitted requires that a client is served.
func (g *guarded) admitted(c *tls.Conn) *tls.Conn {
	g.t.Helper()
	require.NoError(g.t, c.Handshake())
	send(g.t, c, "ping")
	return c
}

// alerted requires that a client gets an alert, in the handshake or after it.
func (g *guarded) alerted(c *tls.Conn, alert, why string) {
	g.t.Helper()
	err := c.Handshake()
	if err == nil {
		_, _ = io.WriteString(c, "ping")
		var b []byte
		b, err = io.ReadAll(c)
		require.Empty(g.t, b, why)
	}
	var remote *net.OpError
	require.ErrorAs(g.t, err, &remote, why)
	require.Equal(g.t, "remote error", remote.Op, "%s: %v", why, err)
	require.ErrorContains(g.t, err, alert, why)
	_ = c.Close()
}

func (g *guarded) refusals(name string, reason proxy.Reason) int {
	return int(g.of(name).counters.guard[index(reason)].refused.Load()) //nolint:gosec // a count
}

// refused requires a number of refusals. The client may get the alert before one is counted.
func (g *guarded) refused(name string, reason proxy.Reason, want int) {
	g.t.Helper()
	g.eventually("refusals", func() bool { return g.refusals(name, reason) >= want })
	require.Equal(g.t, want, g.refusals(name, reason))
}

func (g *guarded) watches(name string, reason proxy.Reason) int {
	return int(g.of(name).counters.guard[index(reason)].watched.Load()) //nolint:gosec // a count
}

// callers returns the clients of guarded ports.
func (g *guarded) callers() []proxy.GuardedClient {
	g.clientsMu.Lock()
	defer g.clientsMu.Unlock()
	return g.clients.List(g.cfg.Clock()).Callers
}

func (g *guarded) callerOf(identity string) proxy.GuardedClient {
	g.t.Helper()
	all := g.callers()
	i := slices.IndexFunc(all, func(c proxy.GuardedClient) bool { return c.Identity == identity })
	require.GreaterOrEqual(g.t, i, 0, "%s is not in %+v", identity, all)
	return all[i]
}
