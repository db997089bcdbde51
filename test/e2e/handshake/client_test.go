package handshake

import (
	"crypto/tls"
	"io"
	"log"
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

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const name = "web.shop.svc"

func newCA(t *testing.T, n int) rotatortest.CA {
	t.Helper()
	return rotatortest.NewCA(t, n, time.Now())
}

func bundle(ca rotatortest.CA) []byte { return pki.NewBundle(ca.Root).PEM() }

// pair is a certificate for name, and its key.
func pair(t *testing.T, ca rotatortest.CA) tls.Certificate {
	t.Helper()
	return ca.Issue(t, time.Now(), name)
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
	first, second := newCA(t, 1), newCA(t, 2)
	target := Target{Address: serve(t, pair(t, second)), Name: name}
	for _, once := range []bool{false, true} {
		client, file := newClient(t, once, bundle(first))
		_, err := client.Shake(t.Context(), target)
		require.ErrorContains(t, err, "unknown authority")
		require.NoError(t, os.WriteFile(file, bundle(second), 0o600))
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
	one, two := bundle(newCA(t, 1)), bundle(newCA(t, 2))
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
	ca := newCA(t, 1)
	client, _ := newClient(t, false, bundle(ca))
	address := serve(t, pair(t, ca))
	_, err := client.Shake(t.Context(), Target{Address: address, Name: "other.shop.svc"})
	require.ErrorContains(t, err, "not other.shop.svc")
	assert.Contains(t, client.Fetch(t.Context(), Request{URL: "https://other.shop.svc/", Address: address}).Err, "not other.shop.svc")
	response := client.Fetch(t.Context(), Request{URL: "https://" + name + "/", Address: address})
	assert.Equal(t, Response{Status: http.StatusOK, Body: "hello", Leaf: response.Leaf, Issuer: ca.Root.Subject.CommonName, Names: []string{name}}, response)
	assert.Len(t, response.Leaf, 64)
}

func TestTheAccount(t *testing.T) {
	ca := newCA(t, 1)
	client, _ := newClient(t, false, bundle(ca))
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	good := Target{Address: serve(t, pair(t, ca)), Name: name}
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
	ca := newCA(t, 1)
	client, _ := newClient(t, false, bundle(ca))
	first, second := Target{Address: serve(t, pair(t, ca)), Name: name}, Target{Address: serve(t, pair(t, ca)), Name: name}
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
