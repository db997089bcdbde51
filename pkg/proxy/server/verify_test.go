package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// Whatever a client sends, and however the server answers, what leaves the pod begins with a ClientHello and has no byte
// of the client in it, unless the client itself sent one. The client gets a reset, and nothing of what the server sent.
func TestNothingLeavesInPlaintext(t *testing.T) {
	svc := newService(t)
	got := make(chan []byte, 1)
	var answer atomic.Pointer[string]
	svc.raw(func(c *net.TCPConn) {
		b := make([]byte, 1<<16)
		n, _ := io.ReadAtLeast(c, b, 64)
		_, _ = io.WriteString(c, *answer.Load())
		_ = c.CloseWrite()
		more, _ := io.ReadFull(c, b[n:])
		got <- b[:n+more]
	})
	w := svc.outside(func(c *Config) { c.Limits.FirstByte = 20 * time.Millisecond })
	const secret = "password=hunter2"
	rapid.Check(t, func(t *rapid.T) {
		w := &world{Server: w.Server, t: w.t}
		first := rapid.OneOf(
			rapid.SampledFrom([]string{"", "\x16", "\x16\x03\x01", "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03", "PRI * HT", "P", "GET / ", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\x00\x00\x00\x08\x04\xd2\x16\x30", "\x15\x03\x03\x00\x02\x02\x28"}),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) string { return string(b) }),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 8, 8), func(b []byte) string { return "\x16\x03\x01" + string(b) }),
		).Draw(t, "first")
		plain := rapid.SampledFrom([]string{"", "HTTP/1.1 400 Bad Request\r\n\r\n", "N", "\x15\x03\x03\x00\x02\x02\x28", "\x16\x03\x03\x00\x04\x02\x00\x00\x00"}).Draw(t, "answer")
		answer.Store(&plain)
		name := rapid.SampledFrom(outPorts).Draw(t, "port")
		if name != atOnce && proxy.ChooseWay([]byte(first+secret)) == proxy.WayThrough {
			t.Skip("a ClientHello")
		}
		w.requireReset(name, first+secret, "")
		sent := <-got
		require.Equal(t, []byte{0x16, 3, 1}, sent[:3])
		require.EqualValues(t, 1, sent[5])
		require.NotContains(t, string(sent), secret)
	})
}

// A server that is not verified gets no byte of the client, which gets a reset.
func TestServersThatAreNotVerified(t *testing.T) {
	svc := newService(t)
	foreign := &service{t: t, ca: newAuthority(t)}
	of := func(change func(*x509.Certificate)) *tls.Config { return svc.config(change) }
	verification := func(c *counters) *atomic.Uint64 { return &c.verification }
	handshake := func(c *counters) *atomic.Uint64 { return &c.serverHandshake }
	old, http1 := svc.config(), svc.config()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	http1.NextProtos = []string{"http/1.1"}
	for name, c := range map[string]struct {
		config *tls.Config
		reason func(*counters) *atomic.Uint64
		logged string
	}{
		"another name": {
			of(func(c *x509.Certificate) {
				c.DNSNames = []string{"web.shop.svc", "api", "api.shop", "api.shop.svc.cluster.local", "*.svc"}
			}), verification, "check that the pods behind the Service have the certificate of this Service",
		},
		"another CA":      {foreign.config(), verification, "annotation servingcert.dev/secret-name"},
		"expired":         {of(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), verification, "reloads its renewed certificate"},
		"not yet valid":   {of(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), verification, "reloads its renewed certificate"},
		"not for servers": {of(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), verification, "incompatible key usage"},
		"TLS 1.1":         {old, handshake, "the server refused the handshake"},
		"without HTTP/2":  {http1, handshake, "no application protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &service{t: t, ca: svc.ca, bundle: svc.bundle}
			var data atomic.Int64
			svc.serve(c.config, func(c *tls.Conn) {
				n, _ := io.Copy(io.Discard, c)
				data.Add(n)
			})
			w := svc.outside()
			for _, port := range []string{waits, either, atOnce} {
				if c.config == http1 && port == atOnce { // which negotiates no protocol
					continue
				}
				w.requireReset(port, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", port)
				require.EqualValues(t, 1, c.reason(&w.of(port).counters).Load(), port)
			}
			require.Contains(t, w.logs.String(), c.logged)
			require.Contains(t, w.logs.String(), "port="+waits)
			require.Zero(t, data.Load())
		})
	}
	svc.raw(func(c *net.TCPConn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	w := svc.outside()
	w.requireReset(atOnce, "", "")
	require.Contains(t, w.logs.String(), "the port does not speak TLS")
	svc.serve(svc.config(), echoTLS)
	send(t, w.dial(atOnce), "with TLS again")
}

// A server whose handshake does not end is given up, and so is one with an endless one.
func TestHandshakesWithoutEnd(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside(func(c *Config) { c.Limits.Handshake = 2 * time.Second })
	before := w.dial(atOnce)
	send(t, before, "ping")
	svc.raw(func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	w.requireReset(atOnce, "", "")
	require.EqualValues(t, 1, w.of(atOnce).counters.serverHandshake.Load())
	send(t, before, "the time does not limit a connection")
	w.stop()

	w = svc.outside(func(c *Config) { c.Limits.Handshake = time.Hour })
	config, pieces := svc.config(), []int{largest, largest, 5000}
	svc.raw(func(c *net.TCPConn) {
		_, _ = io.ReadAtLeast(c, make([]byte, 1<<12), 64)
		_, _ = c.Write(serverHello)
		unfinished{message: 11, pieces: pieces}.to(c)
		_, _ = io.Copy(io.Discard, c)
	})
	w.requireReset(atOnce, "", "a certificate")
	svc.raw(func(c *net.TCPConn) {
		unfinished{seal: keys(t, "SERVER", c, tls.Server, config), message: 4, pieces: pieces}.to(c)
		_, _ = io.Copy(io.Discard, c)
	})
	w.requireReset(atOnce, "", "a ticket")
}

// A certificate may have as many names as a Service may request.
func TestLargeCertificate(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(func(c *x509.Certificate) {
		for len(c.DNSNames) < 103 {
			c.DNSNames = append(c.DNSNames, strings.Repeat("a.", 120)+"example.com")
		}
	}), echoTLS)
	w := svc.outside()
	send(t, w.dial(atOnce), "ping")
}

// Sessions are resumed, each with the servers of one name and protocol, until the roots change.
func TestSessionsAreResumed(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		svc := newService(t)
		config := svc.config()
		config.MaxVersion, config.NextProtos = version, []string{"h2"}
		states := make(chan tls.ConnectionState, 1)
		svc.serve(config, func(c *tls.Conn) {
			states <- c.ConnectionState()
			echoTLS(c)
		})
		w := svc.outside()
		resumed := func(first string) bool {
			c := w.dial(waits)
			send(t, c, first) // and with the answer, the ticket
			require.NoError(t, c.Close())
			return (<-states).DidResume
		}
		const h2, http1 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"
		require.False(t, resumed(http1))
		require.True(t, resumed(http1))
		require.True(t, resumed(http1), "more than once")
		require.False(t, resumed(h2), "another protocol")
		require.True(t, resumed(h2))
		svc.trust(append(svc.ca.pem(), newAuthority(t).pem()...))
		w.eventually("reloaded", func() bool { return w.roots.reloads.Load() == 1 })
		require.False(t, resumed(h2), "the roots have changed")
		require.True(t, resumed(h2))
		w.stop()
	}
}

// When the roots change, servers of the old ones are refused, and connections in progress continue.
func TestRootsChange(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside()
	before := w.dial(atOnce)
	send(t, before, "ping")
	oldServer, old := svc.server.Load(), svc.ca
	svc.ca = newAuthority(t)
	svc.serve(svc.config(), echoTLS)
	newServer := svc.server.Load()
	w.requireReset(atOnce, "", "of a CA that is not trusted yet")

	svc.trust(append(old.pem(), svc.ca.pem()...))
	w.eventually("both", func() bool { return w.roots.reloads.Load() == 1 })
	for _, server := range []uint32{oldServer, newServer} {
		svc.server.Store(server)
		send(t, w.dial(atOnce), "ping")
	}
	svc.trust(svc.ca.pem())
	w.eventually("only the new", func() bool { return w.roots.reloads.Load() == 2 })
	send(t, w.dial(atOnce), "ping")
	svc.server.Store(oldServer)
	w.requireReset(atOnce, "", "")
	send(t, before, "a connection in progress")
}

// The proxy is not ready without roots, and listens once it has some.
func TestNoRoots(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	svc.trust([]byte("garbage"))
	checkLeaks(t)
	w := unready(t, svc.connects)
	w.eventually("reported", func() bool { return strings.Contains(w.logs.String(), "waiting for the CA bundle") })
	require.False(t, w.ready.Load())
	require.Nil(t, w.of(atOnce).listener)
	svc.trust(svc.ca.pem())
	w.eventually("listening", w.ready.Load)
	send(t, w.dial(atOnce), "ping")
	svc.trust(nil)
	w.eventually("reported", func() bool { return strings.Contains(w.logs.String(), "cannot load the CA bundle") })
	send(t, w.dial(atOnce), "ping")
	require.Contains(t, w.text(), "servingcert_proxy_ca_file_invalid 1\n")
	require.NotContains(t, w.text(), "servingcert_proxy_certificate")
	svc.trust(svc.ca.pem())
	w.eventually("mended", func() bool { return !w.roots.failing.Load() })
	require.Zero(t, w.roots.reloads.Load())
	require.Equal(t, 1, strings.Count(w.logs.String(), "cannot load the CA bundle"))
}
