package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// asking makes a server request a client certificate, and returns what it got with each connection.
func (svc *service) asking(change ...func(*tls.Config)) <-chan tls.ConnectionState {
	svc.t.Helper()
	states, config := make(chan tls.ConnectionState, 1), svc.config()
	config.ClientAuth = tls.RequestClientCert
	for _, f := range change {
		f(config)
	}
	svc.serve(config, func(c *tls.Conn) {
		states <- c.ConnectionState()
		echoTLS(c)
	})
	return states
}

// identified runs a Server with outbound ports and an identity, whose file it returns.
func (svc *service) identified(c *tls.Certificate) (w *world, file string) {
	svc.t.Helper()
	file = filepath.Join(svc.t.TempDir(), "identity.pem")
	replace(svc.t, file, bundle(svc.t, c))
	return svc.outside(func(c *Config) { c.IdentityFile = file }), file
}

// A server that requests a client certificate gets the identity, and a renewed one as soon as there is one. Sessions
// are resumed with a renewed certificate, but not with another identity.
func TestIdentityIsPresented(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		svc, ca := newService(t), newClientCA(t, 1)
		states := svc.asking(func(c *tls.Config) { c.MaxVersion = version })
		first := ca.issue(t, cart)
		w, file := svc.identified(first)
		connect := func() (state tls.ConnectionState) {
			c := w.dial(atOnce)
			send(t, c, "ping") // and with the answer, the ticket
			require.NoError(t, c.Close())
			return <-states
		}
		change := func(c *tls.Certificate) {
			reloads := w.identity.reloads.Load()
			replace(t, file, bundle(t, c))
			w.eventually("reloaded", func() bool { return w.identity.reloads.Load() > reloads })
		}
		state := connect()
		require.Equal(t, first.Certificate[0], state.PeerCertificates[0].Raw)
		require.False(t, state.DidResume)
		require.True(t, connect().DidResume)
		second := ca.issue(t, cart)
		change(second)
		state = connect()
		require.True(t, state.DidResume, "the same identity")
		require.Equal(t, first.Certificate[0], state.PeerCertificates[0].Raw)
		third := ca.issue(t, other)
		change(third)
		state = connect()
		require.False(t, state.DidResume, "another identity")
		require.Equal(t, third.Certificate[0], state.PeerCertificates[0].Raw)
		require.True(t, connect().DidResume)

		svc.serve(svc.config(), echoTLS) // which requests none
		send(t, w.dial(atOnce), "ping")
		foreign := x509.NewCertPool()
		foreign.AddCert(newAuthority(t).cert)
		states = svc.asking(func(c *tls.Config) { c.MaxVersion, c.ClientCAs = version, foreign })
		require.Empty(t, connect().PeerCertificates, "a server that names other CAs")
		w.stop()
	}
}

// A file that is not valid, or has expired, leaves the identity as it was. It is logged once.
func TestIdentitiesThatAreNotValid(t *testing.T) {
	svc, ca := newService(t), newClientCA(t, 1)
	states := svc.asking(func(c *tls.Config) { c.SessionTicketsDisabled = true })
	good := ca.issue(t, cart)
	w, file := svc.identified(good)
	expired := bundle(t, ca.issue(t, cart, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
	for i, content := range [][]byte{nil, []byte("garbage"), bundle(t, good)[:500], expired, append(bundle(t, ca.issue(t, cart))[:242], bundle(t, good)[242:]...)} {
		replace(t, file, content)
		w.eventually("reported", func() bool {
			return strings.Count(w.logs.String(), "cannot load the identity, presenting the previous one") == i+1
		})
		send(t, w.dial(atOnce), "ping")
		require.Equal(t, good.Certificate[0], (<-states).PeerCertificates[0].Raw)
		require.Contains(t, w.text(), "servingcert_proxy_identity_file_invalid 1\n")
		replace(t, file, bundle(t, good))
		w.eventually("mended", func() bool { return !w.identity.failing.Load() })
	}
	require.Contains(t, w.text(), "servingcert_proxy_identity_file_invalid 0\n")
	require.Contains(t, w.logs.String(), "has expired at")
	require.NotContains(t, w.logs.String(), "PRIVATE")
	require.Zero(t, w.identity.reloads.Load())
	checkExposition(t, w.text())
}

// The proxy does not start with an identity that is not valid. One that has expired is presented: the server decides.
func TestIdentityAtTheStart(t *testing.T) {
	svc, ca := newService(t), newClientCA(t, 1)
	file := filepath.Join(t.TempDir(), "identity.pem")
	cfg := Config{Limits: proxy.DefaultLimits(), Clock: time.Now, Log: discard, IdentityFile: file}
	svc.connects(&cfg)
	require.ErrorIs(t, New(cfg).Run(t.Context()), os.ErrNotExist)
	replace(t, file, []byte("garbage"))
	require.EqualError(t, New(cfg).Run(t.Context()), "--identity: "+file+": no PEM block in the private key")

	states := svc.asking()
	cert := ca.issue(t, cart, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	w, _ := svc.identified(cert)
	send(t, w.dial(atOnce), "ping")
	require.Equal(t, cert.Certificate[0], (<-states).PeerCertificates[0].Raw)
	require.Contains(t, w.logs.String(), `level=WARN msg="the identity has expired, presenting it nevertheless" identity=`+cart)
}

// Two proxies: a program calls another in plaintext, and what is between them has both identities.
func TestIdentityToAGuardedProxy(t *testing.T) {
	svc := newService(t)
	v := newVolume(t, svc.ca.issue(t))
	g := startGuarded(t, program(t, echo), strict+"=shop/cart", func(c *Config) { c.CertDir = v.dir })
	svc.server.Store(uint32(g.at(strict).Port))
	w, file := svc.identified(g.ca.issue(t, cart))
	for _, name := range outPorts {
		send(t, w.dial(name), "GET / HTTP/1.1\r\n\r\n")
	}
	require.EqualValues(t, 3, g.callerOf(cart).Connections)
	replace(t, file, bundle(t, g.ca.issue(t, other)))
	w.eventually("reloaded", func() bool { return w.identity.reloads.Load() == 1 })
	for _, name := range outPorts {
		w.requireReset(name, "GET / HTTP/1.1\r\n\r\n", "not listed")
		w.eventually("counted", func() bool { return w.of(name).counters.serverHandshake.Load() == 1 })
	}
	require.Contains(t, w.logs.String(), "check that annotation servingcert.dev/clients of its Service lists the ServiceAccount of this pod")
	g.list(strict + "=shop/*")
	kept := w.dial(atOnce)
	send(t, kept, "ping")
	g.list(strict + "=shop/cart")
	_, err := io.ReadAll(kept)
	require.Error(t, err)
}

// TestACallPastTheProxyOfItsPod: a program of a pod that connects, but asks DNS itself, sends plaintext to the server. The
// server's proxy names it, and names no client whose proxy made the call.
func TestACallPastTheProxyOfItsPod(t *testing.T) {
	svc := newService(t)
	v := newVolume(t, svc.ca.issue(t))
	g := startGuarded(t, program(t, echo), both+"=watch", func(c *Config) { c.CertDir = v.dir })
	svc.server.Store(uint32(g.at(both).Port))
	w, _ := svc.identified(g.ca.issue(t, cart))
	for _, name := range outPorts {
		send(t, w.dial(name), "GET / HTTP/1.1\r\n\r\n")
	}
	require.EqualValues(t, 3, g.callerOf(cart).Connections)
	require.Empty(t, g.world.list())
	send(t, g.dial(both), "GET / HTTP/1.1\r\n\r\n")
	require.Len(t, g.world.list(), 1)
}
