package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/proxy"
)

var outPorts = []string{atOnce, waits, either}

func TestConnects(t *testing.T) {
	svc := newService(t)
	states := make(chan tls.ConnectionState, 1)
	svc.serve(svc.config(), func(c *tls.Conn) {
		states <- c.ConnectionState()
		echoTLS(c)
	})
	w := svc.outside()
	for _, name := range outPorts {
		c := w.dial(name)
		_, err := io.WriteString(c, "x")
		require.NoError(t, err)
		state := <-states
		require.Equal(t, host, state.ServerName)
		require.EqualValues(t, tls.VersionTLS13, state.Version)
		require.Equal(t, tls.X25519MLKEM768, state.CurveID)
		require.Empty(t, state.NegotiatedProtocol)
		require.Equal(t, "x", receive(t, c, 1))
		for _, n := range []int{1, 100, 5000, 70_000, 1 << 20, 3} {
			go func() { _, _ = c.Write(bytes.Repeat([]byte("y"), n)) }()
			require.Equal(t, strings.Repeat("y", n), receive(t, c, n))
		}
		require.EqualValues(t, 1, w.of(name).counters.connect.Load(), name)
		require.NoError(t, c.CloseWrite())
		_, err = io.ReadAll(c)
		require.NoError(t, err)
	}
	require.Empty(t, w.list(), "no client from outside")
}

// Real clients of HTTP: HTTP/1.1, and HTTP/2 without an upgrade, as gRPC speaks it.
func TestConnectsHTTP(t *testing.T) {
	svc := newService(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Proto+" "+r.TLS.NegotiatedProtocol)
		}),
		TLSConfig: svc.config(), ReadHeaderTimeout: patience,
	}
	go func() { _ = served.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = served.Close() })
	svc.server.Store(uint32(listener.Addr().(*net.TCPAddr).Port))
	w := svc.outside()
	for _, c := range []struct {
		port, want string
		h2         bool
	}{
		{atOnce, "HTTP/1.1 ", false},
		{waits, "HTTP/1.1 ", false},
		{waits, "HTTP/2.0 h2", true},
		{either, "HTTP/1.1 ", false},
		{either, "HTTP/2.0 h2", true},
	} {
		transport := &http.Transport{Protocols: &http.Protocols{}}
		transport.Protocols.SetHTTP1(!c.h2)
		transport.Protocols.SetUnencryptedHTTP2(c.h2)
		client := &http.Client{Transport: transport, Timeout: patience}
		for range 3 {
			response, err := client.Post("http://"+w.address(c.port), "text/plain", strings.NewReader(strings.Repeat("x", 100_000)))
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.want, string(body), "%+v", c)
		}
		transport.CloseIdleConnections()
	}
}

// A server may send first. Where the client has to, it is waited for: without bound, or for the time of the first byte.
func TestServerSpeaksFirst(t *testing.T) {
	svc := newService(t)
	var reached atomic.Int32
	svc.serve(svc.config(), func(c *tls.Conn) {
		reached.Add(1)
		_, _ = io.WriteString(c, "220 hello\r\n")
		echoTLS(c)
	})
	w := svc.outside(soonSilent)
	silent := w.dial(waits)
	w.eventually("accepted", func() bool { return w.conns.len() == 1 })
	for _, name := range []string{either, atOnce} {
		c := w.dial(name)
		require.Equal(t, "220 hello\r\n", receive(t, c, 11))
		send(t, c, "EHLO")
	}
	require.EqualValues(t, 2, reached.Load(), "a client of HTTP sends first")
	require.Equal(t, 2, w.serving())
	for i := range "GE" { // fewer bytes than are needed; the second ones are waited for
		_, err := io.WriteString(silent, "GE"[i:i+1])
		require.NoError(t, err)
	}
	require.Equal(t, "220 hello\r\nGE", receive(t, silent, 13))

	for _, first := range []string{"P", "\x16", "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03", "PRI * H"} { // and no more
		for _, name := range []string{waits, either} {
			c := w.dial(name)
			_, err := io.WriteString(c, first)
			require.NoError(t, err)
			require.Equal(t, "220 hello\r\n"+first, receive(t, c, 11+len(first)), "%q", first)
		}
	}
	c := w.dial(waits)
	_, err := io.WriteString(c, "P")
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "220 hello\r\nP", string(b), "a client that ends its side after a byte")
}

// A connection without a byte causes neither a connection to the server nor a line in the log.
func TestOutboundProbes(t *testing.T) {
	svc := newService(t)
	svc.raw(func(*net.TCPConn) { t.Error("the server was reached") })
	w := svc.outside()
	for _, name := range []string{waits, either} {
		require.NoError(t, w.dial(name).Close())
		reset := w.dial(name)
		require.NoError(t, reset.SetLinger(0))
		require.NoError(t, reset.Close())
		w.eventually("probes", func() bool { return w.of(name).counters.probes.Load() == 2 })
	}
	require.Equal(t, 2, strings.Count(w.logs.String(), "\n"), w.logs.String()) // CA bundle, serving
	require.Zero(t, svc.lookups.Load())
}

// A client that speaks TLS itself verifies the server itself. Where the proxy does not wait for its first bytes, they
// are wrapped.
func TestClientsTLSIsPassedThrough(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), func(c *tls.Conn) { echoTLS(c) })
	w := svc.outside()
	roots := x509.NewCertPool()
	roots.AddCert(svc.ca.cert)
	for _, name := range []string{waits, either} {
		c := tls.Client(w.dial(name), &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12})
		require.NoError(t, c.Handshake())
		send(t, c, "ping")
		require.NoError(t, c.CloseWrite())
		_, err := io.ReadAll(c)
		require.NoError(t, err)
		require.EqualValues(t, 1, w.of(name).counters.connectTLS.Load())
		require.Zero(t, w.of(name).counters.connect.Load())
	}
	c := w.dial(atOnce)
	send(t, c, "\x16\x03\x01\x06\x00\x01\x00\x05\xfc\x03\x03")
	require.EqualValues(t, 1, w.of(atOnce).counters.connect.Load())
}

// PostgreSQL's clients ask for TLS in plaintext: that leaves the pod only in TLS.
func TestSSLRequestIsWrapped(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), func(c *tls.Conn) {
		b := make([]byte, 8)
		if _, err := io.ReadFull(c, b); err == nil && proxy.Look(b) == proxy.KindSSL {
			_, _ = io.WriteString(c, "N")
			echoTLS(c)
		}
	})
	w := svc.outside()
	for _, name := range outPorts {
		c := w.dial(name)
		_, err := io.WriteString(c, "\x00\x00\x00\x08\x04\xd2\x16\x2f")
		require.NoError(t, err)
		require.Equal(t, "N", receive(t, c, 1))
		send(t, c, "\x00\x00\x00\x54\x00\x03\x00\x00")
	}
}

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
		c := w.dial(name)
		defer c.Close()
		_, err := io.WriteString(c, first+secret)
		require.NoError(t, err)
		b, err := io.ReadAll(c)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Empty(t, b)
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
				client := w.dial(port)
				_, err := io.WriteString(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
				if err == nil {
					_, err = io.ReadAll(client)
				}
				require.ErrorIs(t, err, syscall.ECONNRESET, port)
				require.EqualValues(t, 1, c.reason(&w.of(port).counters).Load(), port)
			}
			require.Contains(t, w.logs.String(), c.logged)
			require.Contains(t, w.logs.String(), "port="+waits)
			require.Zero(t, data.Load())
		})
	}
	svc.raw(func(c *net.TCPConn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	w := svc.outside()
	_, err := io.ReadAll(w.dial(atOnce))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Contains(t, w.logs.String(), "the port does not speak TLS")
}

// A server whose handshake does not end is given up, and so is one with an endless one.
func TestHandshakesWithoutEnd(t *testing.T) {
	svc := newService(t)
	svc.raw(func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	w := svc.outside(func(c *Config) { c.Limits.Handshake = 200 * time.Millisecond })
	_, err := io.ReadAll(w.dial(atOnce))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.EqualValues(t, 1, w.of(atOnce).counters.serverHandshake.Load())
	w.stop()

	w = svc.outside()
	svc.raw(func(c *net.TCPConn) { // a ServerHello of 16 MiB
		_, _ = io.ReadAtLeast(c, make([]byte, 1<<12), 64)
		_, _ = c.Write([]byte{22, 3, 3, 0x40, 0, 2, 0xff, 0, 0})
		for {
			if _, err := c.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	_, err = io.ReadAll(w.dial(atOnce))
	require.ErrorIs(t, err, syscall.ECONNRESET)
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

func TestHalfClosedOutbound(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), func(c *tls.Conn) {
		b, err := io.ReadAll(c) // until the client ends its side, with close_notify
		if err != nil {
			return
		}
		_, _ = c.Write(bytes.Repeat([]byte("y"), 100_000+len(b)))
		_ = c.CloseWrite()
	})
	w := svc.outside()
	for _, name := range outPorts {
		c := w.dial(name)
		_, err := c.Write(make([]byte, 200_000))
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		b, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Len(t, b, 300_000, name)
	}
	got := make(chan int, 1)
	for how, end := range map[string]func(*tls.Conn){
		"close_notify": func(c *tls.Conn) { _ = c.CloseWrite() },
		"both":         func(c *tls.Conn) { _, _ = c.CloseWrite(), c.NetConn().(*net.TCPConn).CloseWrite() },
		"FIN":          func(c *tls.Conn) { _ = c.NetConn().(*net.TCPConn).CloseWrite() },
	} {
		svc.serve(svc.config(), func(c *tls.Conn) {
			_, _ = io.WriteString(c, "that is all")
			end(c)
			b, _ := io.ReadAll(c)
			got <- len(b)
		})
		for _, name := range outPorts {
			c := w.dial(name)
			_, err := io.WriteString(c, "x")
			require.NoError(t, err)
			b, err := io.ReadAll(c)
			require.NoError(t, err, how)
			require.Equal(t, "that is all", string(b), how)
			_, err = c.Write(make([]byte, 200_000))
			require.NoError(t, err)
			require.NoError(t, c.CloseWrite())
			require.Equal(t, 200_001, <-got, how)
		}
	}
}

// A reset on one side becomes a reset on the other, and a truncated record too.
func TestOutboundResets(t *testing.T) {
	svc := newService(t)
	got := make(chan error, 1)
	svc.serve(svc.config(), func(c *tls.Conn) {
		raw, b := c.NetConn().(*net.TCPConn), make([]byte, 1)
		for {
			_, err := c.Read(b)
			switch {
			case err != nil:
				got <- err
				return
			case b[0] == 'r':
				_ = raw.SetLinger(0)
				return
			case b[0] == 't':
				_, _ = raw.Write([]byte{23, 3, 3, 0, 40, 1, 2})
				return
			case b[0] == 'g':
				_, _ = raw.Write(append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...))
				_, _ = io.Copy(io.Discard, raw)
				return
			}
			_, _ = c.Write(b)
		}
	})
	w := svc.outside()
	for _, name := range outPorts {
		c := w.dial(name)
		send(t, c, "x")
		require.NoError(t, c.SetLinger(0))
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-got, syscall.ECONNRESET, name)
		for _, how := range []string{"r", "t", "g"} {
			c = w.dial(name)
			send(t, c, "x")
			_, err := io.WriteString(c, how)
			require.NoError(t, err)
			_, err = io.ReadAll(c)
			require.ErrorIs(t, err, syscall.ECONNRESET, "%s %s", name, how)
		}
	}
	w.eventually("all have ended", func() bool { return w.conns.len() == 0 })
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
	_, err := io.ReadAll(w.dial(atOnce))
	require.ErrorIs(t, err, syscall.ECONNRESET, "of a CA that is not trusted yet")

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
	_, err = io.ReadAll(w.dial(atOnce))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	send(t, before, "a connection in progress")
}

// A server that is away causes resets, and is reached again when it is back.
func TestServerIsAway(t *testing.T) {
	svc := newService(t)
	svc.server.Store(uint32(listenAndClose(t)))
	w := svc.outside()
	for _, name := range outPorts {
		c := w.dial(name)
		_, err := io.WriteString(c, "x")
		if err == nil {
			_, err = io.ReadAll(c)
		}
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.EqualValues(t, 1, w.of(name).counters.server.Load())
	}
	require.Contains(t, w.logs.String(), "cannot connect to the server: refused the connection")
	require.Contains(t, w.logs.String(), "check that the Service has port 443 and ready endpoints")
	svc.serve(svc.config(), echoTLS)
	for _, name := range outPorts {
		send(t, w.dial(name), "ping")
	}
}

// Of several addresses, the one that worked last is tried first.
func TestAddressesOfAService(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	first, second := netip.MustParseAddr("2001:db8::1"), serviceIP
	svc.answers(func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{first, second}, nil })
	dials := make(chan string, 10)
	w := svc.outside(func(c *Config) {
		dial := c.dial
		c.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials <- address
			return dial(ctx, network, address) // only to the second
		}
	})
	send(t, w.dial(atOnce), "ping")
	send(t, w.dial(atOnce), "ping")
	close(dials)
	var all []string
	for d := range dials {
		all = append(all, d)
	}
	require.Equal(t, []string{"[2001:db8::1]:443", "192.0.2.10:443", "192.0.2.10:443"}, all)
}

// Answers that lead back into the pod are refused, and DNS that fails is an error only without an earlier answer.
func TestAnswersOfDNS(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside(func(c *Config) { c.Upstream = append(c.Upstream, netip.MustParseAddr("10.1.2.3")) })
	answer := func(address string) Resolver {
		return func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(address)}, nil
		}
	}
	fails := func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	for i, resolve := range []Resolver{answer("127.1.0.1"), answer("10.1.2.3"), answer("::ffff:127.0.0.1"), fails} {
		svc.answers(resolve)
		_, err := io.ReadAll(w.dial(atOnce))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.EqualValues(t, i+1, w.of(atOnce).counters.dns.Load())
	}
	require.Contains(t, w.logs.String(), "DNS answered 127.1.0.1: the proxy would connect to itself")
	require.Contains(t, w.logs.String(), "host=api.shop.svc.cluster.local.")
	svc.answer.Store(nil)
	send(t, w.dial(atOnce), "ping")
	n := svc.lookups.Load()
	for _, name := range outPorts {
		send(t, w.dial(name), "ping")
	}
	require.Equal(t, n, svc.lookups.Load(), "the answer is kept, for all ports of the Service")
}

// Idle connections are closed, also those that have sent nothing.
func TestIdleOutbound(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	var passed atomic.Int64
	w := svc.outside(func(c *Config) { c.Clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) } })
	clients := []net.Conn{w.dial(waits), w.dial(atOnce), w.dial(waits)}
	for _, c := range clients[1:] {
		send(t, c, "ping")
	}
	w.eventually("accepted", func() bool { return w.conns.len() == 3 })
	passed.Store(int64(w.cfg.Limits.Idle))
	w.sweepOnce(false)
	for _, c := range clients {
		b, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Empty(t, b)
	}
}

// Outbound connections count like others, and those that are not established are closed for new ones.
func TestMaxConnectionsOutbound(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside(func(c *Config) { c.Limits.MaxConnections = 10 })
	var kept []net.Conn
	for range 9 {
		c := w.dial(atOnce)
		send(t, c, "ping")
		kept = append(kept, c)
	}
	oldest := w.dial(waits)
	w.eventually("accepted", func() bool { return w.conns.len() == 10 })
	c := w.dial(either)
	send(t, c, "ping")
	b, err := io.ReadAll(oldest)
	require.NoError(t, err)
	require.Empty(t, b)
	require.EqualValues(t, 1, w.of(waits).counters.evicted.Load())
	for _, c := range append(kept, c) {
		send(t, c, "ping")
	}
	refused := w.dial(atOnce)
	_, err = io.ReadAll(refused)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.EqualValues(t, 1, w.of(atOnce).counters.refused.Load())
}

// A connection that is closed for another one, or at the end of the drain, waits neither for DNS nor for a server.
func TestClosedConnectionsStopWaiting(t *testing.T) {
	svc := newService(t)
	svc.answers(func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	w := svc.outside(func(c *Config) { c.Limits.MaxConnections = 1 })
	first := w.dial(atOnce)
	w.eventually("a lookup", func() bool { return svc.lookups.Load() == 1 })
	w.dial(atOnce)
	_, err := io.ReadAll(first)
	require.NoError(t, err)
	begun := time.Now()
	w.stop()
	require.Less(t, time.Since(begun), lookupTimeout)
	require.Zero(t, w.of(atOnce).counters.dns.Load(), "no fault of DNS")

	svc.answer.Store(nil)
	reached := make(chan struct{}, 1)
	svc.raw(func(c *net.TCPConn) {
		reached <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	})
	w = svc.outside(func(c *Config) { c.Limits.Handshake = time.Hour })
	w.dial(atOnce)
	<-reached
	w.stop()
	require.Zero(t, w.of(atOnce).counters.serverHandshake.Load(), "no fault of the server")
}

// After a stop, connections in progress continue, and new ones are refused.
func TestDrainOutbound(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside(func(c *Config) { c.Limits.Drain = patience })
	c := w.dial(atOnce)
	send(t, c, "ping")
	address := w.address(atOnce)
	stopped := make(chan struct{})
	go func() {
		w.stop()
		close(stopped)
	}()
	w.eventually("new connections are refused", func() bool {
		_, err := net.Dial("tcp", address)
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	send(t, c, "pong")
	require.NoError(t, c.Close())
	<-stopped
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

// A program calls a program in the same pod, through both halves of the proxy.
func TestProxyToProxy(t *testing.T) {
	svc := newService(t)
	v := newVolume(t, svc.ca.issue(t))
	w := start(t, program(t, echo), svc.connects, func(c *Config) { c.CertDir = v.dir })
	svc.server.Store(uint32(w.at(strict).Port))
	for _, name := range outPorts {
		c := w.dial(name)
		for _, n := range []int{1, 5000, 1 << 20} {
			go func() { _, _ = c.Write(make([]byte, n)) }()
			receive(t, c, n)
		}
		require.NoError(t, c.CloseWrite())
		_, err := io.ReadAll(c)
		require.NoError(t, err)
	}
	checkExposition(t, w.text())
	for _, line := range []string{
		`servingcert_proxy_connections_total{port="sc-tls-8080",kind="tls"} 3`,
		`servingcert_proxy_connections_total{port="api.shop.svc:80",kind="connect"} 1`,
		`servingcert_proxy_connections_total{port="api.shop.svc:81",kind="connect_tls"} 0`,
		`servingcert_proxy_connections_failed_total{port="api.shop.svc:80",reason="verification"} 0`,
	} {
		require.Contains(t, w.text(), line+"\n")
	}
	require.NotContains(t, w.text(), `{port="api.shop.svc:80",reason="not_tls"}`)
	require.NotContains(t, w.text(), `{port="sc-tls-8080",reason="dns"}`)
}

// An outbound port whose address is taken is an error that names it.
func TestAddressThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "0.0.0.0:0") // as a program does
	require.NoError(t, err)
	defer taken.Close()
	svc := newService(t)
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	cfg := Config{Clock: time.Now, Limits: proxy.DefaultLimits(), Log: discard}
	svc.connects(&cfg)
	cfg.Connects = []proxy.Connect{{Name: "api.shop.svc:8080", Local: netip.AddrPortFrom(netip.MustParseAddr("127.1.0.1"), port)}}
	err = New(cfg).Run(t.Context())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "--connect api.shop.svc:8080: cannot listen on port")
}
