package server

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/proxy/clients"
)

const onlyCart = strict + "=shop/cart;" + both + "=shop/cart"

// Clients that are not admitted get an alert, and the program nothing.
func TestWhoIsAdmitted(t *testing.T) {
	var reached atomic.Int64
	g := startGuarded(t, program(t, func(c *net.TCPConn) { reached.Add(1); echo(c) }), onlyCart)
	servers := newAuthority(t)
	ofServers := func() *tls.Certificate {
		p := servers.issue(t, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: domain, Path: "/ns/shop/sa/cart"}}
		})
		pair, err := tls.X509KeyPair(p.cert, p.key)
		require.NoError(t, err)
		return &pair
	}
	second := []*url.URL{{Scheme: "spiffe", Host: domain, Path: "/ns/shop/sa/cart"}, {Scheme: "spiffe", Host: domain, Path: "/ns/shop/sa/other"}}
	n, want := map[proxy.Reason]int{}, int64(0)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		of := func(c *tls.Config) { c.MaxVersion = version }
		for _, name := range []string{strict, both} {
			g.admitted(g.as(g.ca.issue(t, cart), name, of))
			want++
		}
		for name, c := range map[string]struct {
			cert   *tls.Certificate
			reason proxy.Reason
		}{
			"none":                 {nil, proxy.NoCertificate},
			"of the serving CA":    {ofServers(), proxy.Unverified},
			"expired":              {g.ca.issue(t, cart, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), proxy.Unverified},
			"another trust domain": {g.ca.issue(t, "spiffe://example.org/ns/shop/sa/cart"), proxy.Unverified},
			"two URIs":             {g.ca.issue(t, cart, func(c *x509.Certificate) { c.URIs = second }), proxy.Unverified},
			"for servers":          {g.ca.issue(t, cart, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), proxy.Unverified},
			"not listed":           {g.ca.issue(t, other), proxy.NotListed},
		} {
			alert := "tls: bad certificate"
			if c.cert == nil {
				alert = map[uint16]string{tls.VersionTLS12: "handshake failure", tls.VersionTLS13: "certificate required"}[version]
			}
			g.alerted(g.as(c.cert, strict, of), alert, name)
			n[c.reason]++
			g.refused(strict, c.reason, n[c.reason])
		}
	}
	require.Equal(t, want, reached.Load())
	counters := &g.of(strict).counters
	require.Zero(t, counters.handshakeErrors.Load()+counters.handshakeTimeouts.Load())
	require.EqualValues(t, 2, counters.tls.Load())
	require.EqualValues(t, 2, g.callerOf(cart).Connections)
	require.Zero(t, g.callerOf(cart).Refused)
	require.EqualValues(t, 2, g.callerOf(other).Refused)
	require.Equal(t, proxy.NotListed, g.callerOf(other).Reason)
	for _, line := range []string{
		`msg="refused a client without a certificate" port=sc-tls-8080 client=127.0.0.1 reason=no_certificate`,
		`msg="refused a client whose certificate is not valid" port=sc-tls-8080 client=127.0.0.1 reason=unverified error="x509: certificate signed by unknown authority`,
		`msg="refused a client that is not listed" port=sc-tls-8080 client=127.0.0.1 reason=not_listed identity=` + other,
	} {
		require.Contains(t, g.logs.String(), line)
	}
	checkExposition(t, g.text())
	require.Contains(t, g.text(), `servingcert_proxy_connections_failed_total{port="sc-tls-8080",reason="not_listed"} 2`+"\n")
}

// A port that is not in the list admits nobody: somebody may have removed the annotation of the pod.
func TestPortsThatAreNotListed(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=any")
	for _, list := range []string{"", " ", both + "=shop/cart"} {
		before := g.admission.reloads.Load()
		replace(t, g.listed, []byte(list))
		g.eventually("the list is loaded", func() bool { return g.admission.reloads.Load() > before })
		g.alerted(g.as(nil, strict), "certificate required", "")
		g.alerted(g.as(g.ca.issue(t, cart), strict), "bad certificate", "")
	}
}

// A port that the list opens requests no certificate.
func TestPortsThatAreNotGuarded(t *testing.T) {
	g := startGuarded(t, program(t, echo), both+"=shop/cart")
	asked := func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			t.Error("a certificate was requested")
			return &tls.Certificate{}, nil
		}
	}
	g.admitted(g.as(nil, strict, asked))
	g.list("")
	g.admitted(g.as(nil, strict, asked))
	g.admitted(g.as(nil, both, asked))
	send(t, g.dial(both), "GET / HTTP/1.1\r\n\r\n")
	require.Empty(t, g.callers())
}

// A port that watches serves everybody, and counts who would be refused.
func TestWatch(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=watch,shop/cart;"+both+"=watch", soonSilent)
	g.admitted(g.as(g.ca.issue(t, cart), strict))
	g.admitted(g.as(g.ca.issue(t, other), strict))
	g.admitted(g.as(newClientCA(t, 1).issue(t, cart), strict, version12))
	g.admitted(g.as(newClientCA(t, 1).issue(t, cart), strict))
	g.admitted(g.as(nil, strict))
	send(t, g.dial(both), "GET / HTTP/1.1\r\n\r\n")
	late := g.dial(both)
	g.eventually("the program is dialled for a silent client", func() bool { return g.conns.len() == 7 && g.serving() == 6 })
	send(t, late, "late")
	for _, c := range []struct {
		name   string
		reason proxy.Reason
		want   int
	}{
		{strict, proxy.NoCertificate, 1}, {strict, proxy.Unverified, 2}, {strict, proxy.NotListed, 1}, {strict, proxy.Unencrypted, 0}, {both, proxy.Unencrypted, 2},
	} {
		require.Equal(t, c.want, g.watches(c.name, c.reason), "%+v", c)
		require.Zero(t, g.refusals(c.name, c.reason), "%+v", c)
	}
	require.Zero(t, g.callerOf(cart).WouldRefuse)
	require.EqualValues(t, 1, g.callerOf(other).WouldRefuse)
	require.Len(t, g.callers(), 4)
	require.Len(t, g.world.list(), 1, "plaintext clients")
	require.Contains(t, g.text(), `servingcert_proxy_clients_watched_total{port="sc-tls-8080",reason="unverified"} 2`+"\n")
	require.Contains(t, g.get("/clients"), `"guarded":[{"port":"sc-tls-8080","watch":true,"since":`)
	answer, err := clients.Parse([]byte(g.get("/clients")))
	require.NoError(t, err)
	require.Len(t, answer.Guarded, 2)
	seen := answer.Guarded[0].Callers
	require.Len(t, seen, 3, "the address of strangers has one entry")
	require.True(t, slices.ContainsFunc(seen, func(c clients.Caller) bool {
		return c.ID.ServiceAccount == "other" && c.Connections == 1 && c.Refused == 0
	}))
	require.Equal(t, 7, g.serving())
}

// Plaintext has no identity.
func TestPlaintextOnAGuardedPort(t *testing.T) {
	var reached atomic.Int64
	g := startGuarded(t, program(t, func(c *net.TCPConn) { reached.Add(1); echo(c) }), onlyCart, func(c *Config) { c.Limits.FirstByte = time.Millisecond })
	raw := g.dial(both)
	_, err := io.WriteString(raw, "GET / HTTP/1.1\r\nHost: web\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(raw), nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	for _, first := range []string{"*1\r\n$4\r\nPING\r\n", "\x00\x00\x00\x54\x00\x03\x00\x00user"} {
		raw = g.dial(both)
		_, err = io.WriteString(raw, first)
		require.NoError(t, err)
		b, _ := io.ReadAll(raw)
		require.Empty(t, b)
	}
	g.refused(both, proxy.Unencrypted, 3)
	require.Zero(t, g.of(both).counters.notTLS.Load())
	require.Zero(t, g.of(both).counters.plaintext.Load())
	require.Empty(t, g.world.list())
	require.EqualValues(t, 3, g.callers()[0].Refused)
	require.Contains(t, g.logs.String(), `msg="refused plaintext on a guarded port" port=sc-any-8080`)

	silent := g.dial(both) // for longer than the time of the first byte: it may still begin TLS
	g.eventually("accepted", func() bool { return g.conns.len() == 1 })
	require.Zero(t, reached.Load(), "the program is not dialled for it")
	client := tls.Client(silent, presenting(g.ca.issue(t, cart)))
	g.admitted(client)
	require.EqualValues(t, 1, reached.Load())
}

// A change of the list ends the connections of those who are no longer admitted, and only these.
func TestTheListChanges(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=shop/*")
	first, second := g.ca.issue(t, cart), g.ca.issue(t, other)
	kept, ended := g.admitted(g.as(first, strict)), g.admitted(g.as(second, strict))
	nobody, plaintext, withTLS := g.admitted(g.as(nil, both)), g.dial(both), g.admitted(g.as(first, both))
	send(t, plaintext, "GET / HTTP/1.1\r\n\r\n")
	silent := g.dial(both)
	g.eventually("accepted", func() bool { return g.conns.len() == 6 })

	begun := time.Now()
	g.list(strict + "=shop/cart;" + both + "=watch")
	t.Logf("in force after %s", time.Since(begun))
	_, err := io.ReadAll(ended)
	require.ErrorIs(t, err, syscall.ECONNRESET, "what it has received is not complete")
	g.alerted(g.as(second, strict), "bad certificate", "not listed any more")
	send(t, kept, "ping")
	send(t, nobody, "ping")
	send(t, plaintext, "ping")
	g.refused(strict, proxy.NotListed, 2)
	require.EqualValues(t, 2, g.callerOf(other).Refused)
	require.EqualValues(t, 1, g.callerOf(other).Connections)

	g.list(strict + "=any;" + both + "=any")
	for name, c := range map[string]io.Reader{"without a certificate": nobody, "plaintext": plaintext, "asked for none": withTLS} {
		_, err = io.ReadAll(c)
		require.ErrorIs(t, err, syscall.ECONNRESET, name)
	}
	g.refused(both, proxy.NoCertificate, 2)
	g.refused(both, proxy.Unencrypted, 1)
	send(t, kept, "ping")
	g.admitted(g.as(second, strict))
	_, err = io.WriteString(silent, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(silent)
	require.ErrorIs(t, err, syscall.ECONNRESET, "known only after the change")
	g.refused(both, proxy.Unencrypted, 2)
	g.eventually("the rest has ended", func() bool { return g.conns.len() == 2 })
}

// A session is resumed if the client is admitted now.
func TestResumptionIsJudgedAnew(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		g := startGuarded(t, program(t, echo), strict+"=any")
		config := presenting(g.ca.issue(t, cart), resuming, func(c *tls.Config) { c.MaxVersion = version })
		connect := func() *tls.Conn { return tls.Client(g.dial(strict), config) }
		resumed := func() bool {
			c := g.admitted(connect())
			require.NoError(t, c.Close())
			return c.ConnectionState().DidResume
		}
		require.False(t, resumed())
		require.True(t, resumed())
		require.True(t, resumed(), "more than once")
		require.EqualValues(t, 3, g.callerOf(cart).Connections)
		g.list(strict + "=shop/cart")
		require.True(t, resumed())
		g.list(strict + "=shop/other")
		g.alerted(connect(), "bad certificate", "not listed")
		g.refused(strict, proxy.NotListed, 1)
		g.list(strict + "=shop/cart")
		resumed() // in TLS 1.3: in 1.2, the client has forgotten the session
		require.True(t, resumed())
		g.list(strict + "=watch,shop/other")
		require.False(t, resumed(), "of a port that requires a certificate")
		require.True(t, resumed())
		require.Equal(t, 2, g.watches(strict, proxy.NotListed))
		g.stop()
	}
}

// A session that was begun when no certificate was requested is not resumed once one is.
func TestSessionsOfAPortThatBecomesGuarded(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, list := range []string{strict + "=watch", strict + "=any"} {
			g := startGuarded(t, program(t, echo), "")
			config := presenting(g.ca.issue(t, cart), resuming, func(c *tls.Config) { c.MaxVersion = version })
			for range 2 {
				require.NoError(t, g.admitted(tls.Client(g.dial(strict), config)).Close())
			}
			g.list(list)
			c := g.admitted(tls.Client(g.dial(strict), config))
			require.False(t, c.ConnectionState().DidResume)
			require.EqualValues(t, 1, g.callerOf(cart).Connections)
			require.Zero(t, g.watches(strict, proxy.NoCertificate))
			g.stop()
		}
	}
}

// A session does not outlive the certificate with which it was begun. The client presents the renewed one.
func TestASessionWithAnExpiredCertificate(t *testing.T) {
	var passed atomic.Int64
	g := startGuarded(t, program(t, echo), strict+"=any", func(c *Config) {
		c.Clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	})
	cert := g.ca.issue(t, cart)
	config := presenting(nil, resuming, func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	})
	connect := func() *tls.Conn { return tls.Client(g.dial(strict), config) }
	require.False(t, g.admitted(connect()).ConnectionState().DidResume)
	require.True(t, g.admitted(connect()).ConnectionState().DidResume)
	passed.Store(int64(90 * time.Minute))
	g.alerted(connect(), "bad certificate", "expired")
	g.refused(strict, proxy.Unverified, 1)
	cert = g.ca.issue(t, cart, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(3 * time.Hour) })
	require.False(t, g.admitted(connect()).ConnectionState().DidResume)
	require.True(t, g.admitted(connect()).ConnectionState().DidResume)
}

// When the CA for clients is replaced, clients of both roots are admitted as long as both are in the bundle. Sessions
// of a root that is gone are not resumed, so that their clients present what they have now.
func TestClientRootsChange(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		g := startGuarded(t, program(t, echo), strict+"=shop/cart")
		renewed := newClientCA(t, 2)
		cert := g.ca.issue(t, cart)
		config := presenting(nil, resuming, func(c *tls.Config) {
			c.MaxVersion = version
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		})
		connect := func() *tls.Conn { return tls.Client(g.dial(strict), config) }
		before := g.admitted(connect())
		g.alerted(g.as(renewed.issue(t, cart), strict), "bad certificate", "not in the bundle yet")
		trust := func(n uint64, pem ...[]byte) {
			replace(t, g.roots, slices.Concat(pem...))
			g.eventually("loaded", func() bool { return g.clientRoots.reloads.Load() == n })
		}
		trust(1, g.ca.pem(), renewed.pem())
		g.admitted(g.as(renewed.issue(t, cart), strict))
		require.False(t, g.admitted(connect()).ConnectionState().DidResume, "the roots have changed")
		require.True(t, g.admitted(connect()).ConnectionState().DidResume)
		cert = renewed.issue(t, cart)
		require.True(t, g.admitted(connect()).ConnectionState().DidResume, "with the certificate of the old root")
		trust(2, renewed.pem())
		require.False(t, g.admitted(connect()).ConnectionState().DidResume)
		g.alerted(g.as(g.ca.issue(t, cart), strict), "bad certificate", "of the old root")
		send(t, before, "ping")

		replace(t, g.roots, pki.EncodeCertificates(newAuthority(t).cert))
		g.eventually("reported", func() bool { return strings.Contains(g.logs.String(), "cannot load the CA bundle for clients") })
		g.admitted(connect())
		require.Contains(t, g.text(), "servingcert_proxy_client_ca_file_invalid 1\n")
		g.stop()
	}
}

// Without a valid list, nobody is admitted. A list that becomes invalid leaves the last one in force.
func TestListsThatAreNotValid(t *testing.T) {
	for name, list := range map[string]string{"garbage": "garbage", "too large": strings.Repeat(" ", proxy.MaxAdmission+1)} {
		t.Run(name, func(t *testing.T) {
			g := startGuarded(t, program(t, echo), list)
			require.Contains(t, g.logs.String(), `level=ERROR msg="cannot load the list of clients, refusing all clients" error="`+g.listed)
			g.alerted(g.as(nil, strict), "certificate required", "")
			g.alerted(g.as(g.ca.issue(t, cart), both), "bad certificate", "")
			raw := g.dial(both)
			_, err := io.WriteString(raw, "*1\r\n$4\r\nPING\r\n")
			require.NoError(t, err)
			b, _ := io.ReadAll(raw)
			require.Empty(t, b)
			require.Contains(t, g.text(), "servingcert_proxy_clients_file_invalid 1\n")
			require.Contains(t, g.get("/clients"), `"guarded":[{"port":"sc-tls-8080","since":`)

			replace(t, g.listed, opening(strict+"=shop/cart"))
			g.eventually("loaded", g.admission.have.Load)
			kept := g.admitted(g.as(g.ca.issue(t, cart), strict))
			g.admitted(g.as(nil, both))
			replace(t, g.listed, []byte(list))
			g.eventually("reported", func() bool {
				return strings.Contains(g.logs.String(), "cannot load the list of clients, the previous one stays in force")
			})
			send(t, kept, "ping")
			g.admitted(g.as(g.ca.issue(t, cart), strict))
			g.alerted(g.as(nil, strict), "certificate required", "")
			g.admitted(g.as(nil, both))
			replace(t, g.listed, opening(strict+"=shop/cart"))
			g.eventually("mended", func() bool { return !g.admission.failing.Load() })
			require.Equal(t, 1, strings.Count(g.logs.String(), "the previous one stays in force"))
			send(t, kept, "ping")
		})
	}
	missing := startGuarded(t, program(t, echo), "", func(c *Config) { c.ClientsFile += ".missing" })
	missing.alerted(missing.as(nil, strict), "certificate required", "")
}

// The proxy does not listen before it can verify clients.
func TestNoClientRoots(t *testing.T) {
	dir := t.TempDir()
	replace(t, dir+"/clients", []byte(strict+"=any"))
	volume := newVolume(t, newPair(t, 1))
	w := unready(t, func(c *Config) {
		c.Ports, c.CertDir = []proxy.Listen{{Name: strict, Upstream: 1}}, volume.dir
		c.ClientCAFile, c.ClientsFile = dir+"/ca.crt", dir+"/clients"
	})
	w.eventually("reported", func() bool { return strings.Contains(w.logs.String(), "waiting for the CA bundle for clients") })
	require.False(t, w.ready.Load())
	replace(t, dir+"/ca.crt", newClientCA(t, 1).pem())
	w.eventually("listening", w.ready.Load)
}
