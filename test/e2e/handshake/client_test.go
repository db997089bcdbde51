package handshake

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

const name = "web.shop.svc"

// authority is a CA.
type authority struct {
	root *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t *testing.T, n int) authority {
	t.Helper()
	key, err := pki.GenerateKey(api.DefaultKeyAlgorithm)
	require.NoError(t, err)
	now := time.Now()
	root, err := pki.NewRoot(key, n, api.DefaultLimits().Constraints(), pki.NotBefore(now), now.Add(time.Hour))
	require.NoError(t, err)
	return authority{root, key}
}

func (a authority) bundle() []byte { return pki.NewBundle(a.root).PEM() }

// pair is a certificate for name, and its key.
func (a authority) pair(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(api.DefaultKeyAlgorithm)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		DNSNames:     []string{name},
		NotBefore:    a.root.NotBefore,
		NotAfter:     a.root.NotAfter,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve answers over HTTPS with a certificate of the CA.
func serve(t *testing.T, pair tls.Certificate) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\n")) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards failed handshakes
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func newClient(t *testing.T, once bool, bundle []byte) (client *Client, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, bundle, 0o600))
	client, err := New(file, once, time.Millisecond, time.Now())
	require.NoError(t, err)
	return client, file
}

func TestTheBundleDecides(t *testing.T) {
	first, second := newAuthority(t, 1), newAuthority(t, 2)
	target := Target{Address: serve(t, second.pair(t)), Name: name}
	for _, once := range []bool{false, true} {
		client, file := newClient(t, once, first.bundle())
		_, err := client.Shake(t.Context(), target)
		require.ErrorContains(t, err, "unknown authority")
		require.NoError(t, os.WriteFile(file, second.bundle(), 0o600))
		leaf, err := client.Shake(t.Context(), target)
		if once {
			require.ErrorContains(t, err, "unknown authority", "the file is read again")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, []string{name}, leaf.DNSNames)
	}
}

// Another order of the roots is not a change: the kubelet shuffles the roots of a ClusterTrustBundle.
func TestTheOrderOfRootsIsNoChange(t *testing.T) {
	one, two := newAuthority(t, 1).bundle(), newAuthority(t, 2).bundle()
	client, file := newClient(t, false, one)
	for _, bundle := range [][]byte{slices.Concat(one, two), slices.Concat(two, one), slices.Concat(one, two)} {
		require.NoError(t, os.WriteFile(file, bundle, 0o600))
		_, err := client.trusted()
		require.NoError(t, err)
		assert.Len(t, client.Report().Bundles, 2)
	}
	require.NoError(t, os.WriteFile(file, two, 0o600))
	_, err := client.trusted()
	require.NoError(t, err)
	assert.Len(t, client.Report().Bundles, 3)
}

func TestNamesAreVerified(t *testing.T) {
	ca := newAuthority(t, 1)
	client, _ := newClient(t, false, ca.bundle())
	address := serve(t, ca.pair(t))
	_, err := client.Shake(t.Context(), Target{Address: address, Name: "other.shop.svc"})
	require.ErrorContains(t, err, "not other.shop.svc")
	assert.Contains(t, client.Fetch(t.Context(), Request{URL: "https://other.shop.svc/", Address: address}).Err, "not other.shop.svc")
	response := client.Fetch(t.Context(), Request{URL: "https://" + name + "/", Address: address})
	assert.Equal(t, Response{Status: http.StatusOK, Body: "hello", Leaf: response.Leaf, Issuer: ca.root.Subject.CommonName, Names: []string{name}}, response)
	assert.Len(t, response.Leaf, 64)
}

func TestTheAccount(t *testing.T) {
	ca := newAuthority(t, 1)
	client, _ := newClient(t, false, ca.bundle())
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	good := Target{Address: serve(t, ca.pair(t)), Name: name}
	bad := Target{Address: closed.Addr().String(), Name: name}
	client.Follow(t.Context(), []Target{good, bad})
	waitFor(t, func(r Report) bool {
		g, _ := r.Of(good)
		b, _ := r.Of(bad)
		return g.Handshakes > 2 && b.Failed > failuresKept
	}, client)

	report := client.Report()
	g, _ := report.Of(good)
	assert.Zero(t, g.Failed)
	assert.Len(t, g.Took, g.Handshakes)
	assert.Equal(t, slices.Max(g.Took), report.Slowest())
	require.Len(t, g.Served, 1)
	first, ok := g.FirstServed(g.Latest().Leaf)
	assert.True(t, ok)
	assert.False(t, first.After(g.Latest().Last))
	b, _ := report.Of(bad)
	assert.Equal(t, b.Handshakes, b.Failed)
	assert.Len(t, b.Failures, failuresKept)
	assert.Contains(t, b.Failures[0].Err, "refused")
	handshakes, failed := report.Totals()
	assert.Equal(t, g.Handshakes+b.Handshakes, handshakes)
	assert.Equal(t, b.Failed, failed)
}

func TestFollowingOthers(t *testing.T) {
	ca := newAuthority(t, 1)
	client, _ := newClient(t, false, ca.bundle())
	first, second := Target{Address: serve(t, ca.pair(t)), Name: name}, Target{Address: serve(t, ca.pair(t)), Name: name}
	handshakes := func(r Report, target Target) int {
		a, _ := r.Of(target)
		return a.Handshakes
	}
	client.Follow(t.Context(), []Target{first})
	waitFor(t, func(r Report) bool { return handshakes(r, first) > 0 }, client)
	client.Follow(t.Context(), []Target{second})
	before := handshakes(client.Report(), first)
	waitFor(t, func(r Report) bool { return handshakes(r, second) > 10 }, client)
	assert.LessOrEqual(t, handshakes(client.Report(), first), before+1, "one may have been in progress")
	client.Follow(t.Context(), []Target{first, second})
	waitFor(t, func(r Report) bool { return handshakes(r, first) > before+1 }, client)
	assert.Len(t, client.Report().Accounts, 2)
}

func waitFor(t *testing.T, reached func(Report) bool, client *Client) {
	t.Helper()
	require.Eventually(t, func() bool { return reached(client.Report()) }, time.Minute, 5*time.Millisecond)
}
