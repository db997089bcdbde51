package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

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

// endSeen is a connection whose FIN is recorded when it is read.
type endSeen struct {
	*net.TCPConn
	seen bool
}

func (c *endSeen) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.seen = c.seen || errors.Is(err, io.EOF)
	return n, err
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
	notified := make(chan bool, 1)
	config := svc.config()
	svc.raw(func(raw *net.TCPConn) {
		below := &endSeen{TCPConn: raw}
		_, _ = io.Copy(io.Discard, tls.Server(below, config))
		notified <- !below.seen
	})
	for _, name := range outPorts {
		c := w.dial(name)
		_, err := io.WriteString(c, "x")
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		require.True(t, <-notified, "close_notify, and not only FIN")
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
