package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

func TestForwards(t *testing.T) {
	w := start(t, program(t, echo))
	for _, name := range []string{strict, both} {
		c := w.tls(name)
		for _, n := range []int{1, 100, 5000, 70_000, 1 << 20, 3} {
			go func() { _, _ = c.Write(make([]byte, n)) }()
			receive(t, c, n)
		}
	}
	c := w.dial(both)
	for _, n := range []int{1, 100, 5000, 70_000, 1 << 20, 3} {
		go func() { _, _ = c.Write(bytes.Repeat([]byte("x"), n)) }()
		receive(t, c, n)
	}
	require.EqualValues(t, 1, w.of(strict).counters.tls.Load())
	require.EqualValues(t, 1, w.of(both).counters.tls.Load())
	require.EqualValues(t, 1, w.of(both).counters.plaintext.Load())
	list := w.list()
	require.Len(t, list, 1)
	require.Equal(t, netip.MustParseAddr("127.0.0.1"), list[0].Address)
	require.Equal(t, both, list[0].Port)
	require.Equal(t, proxy.KindOther, list[0].Kind)
}

func TestPlaintextOnAPortForTLS(t *testing.T) {
	var reached atomic.Int32
	w := start(t, program(t, func(*net.TCPConn) { reached.Add(1) }))
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: web\r\n\r\n",
		"POST /upload HTTP/1.1\r\nHost: web\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("x", 50000),
	} {
		c := w.dial(strict)
		_, err := io.WriteString(c, request)
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Contains(t, string(body), "TLS only")
		require.NoError(t, c.Close())
	}
	for _, other := range []string{
		"*1\r\n$4\r\nPING\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x54\x00\x03\x00\x00user", "\x16\x03\x00\x00\x01\x01\x00\x00",
	} {
		c := w.dial(strict)
		_, err := io.WriteString(c, other)
		require.NoError(t, err)
		b, _ := io.ReadAll(c)
		require.Empty(t, b)
	}
	require.Zero(t, reached.Load())
	require.EqualValues(t, 6, w.of(strict).counters.notTLS.Load())
	require.Empty(t, w.list())
}

// A connection without a byte, such as a probe of the kubelet, causes neither a connection to the program nor
// a line in the log.
func TestProbes(t *testing.T) {
	var reached atomic.Int32
	w := start(t, program(t, func(*net.TCPConn) { reached.Add(1) }))
	for _, name := range []string{strict, both} {
		for range 20 {
			require.NoError(t, w.dial(name).Close())
		}
		reset := w.dial(name)
		require.NoError(t, reset.SetLinger(0))
		require.NoError(t, reset.Close())
		w.eventually("probes", func() bool { return w.of(name).counters.probes.Load() == 21 })
	}
	for _, name := range []string{strict, both} { // not so a client that asks for TLS and goes
		c := w.dial(name)
		_, err := io.WriteString(c, "\x00\x00\x00\x08\x04\xd2\x16\x2f")
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		w.eventually("a failed handshake", func() bool { return w.of(name).counters.handshakeErrors.Load() == 1 })
		require.EqualValues(t, 21, w.of(name).counters.probes.Load())
	}
	require.Zero(t, reached.Load())
	require.Equal(t, 2, strings.Count(w.logs.String(), "\n"), w.logs.String()) // certificate, serving
	require.Empty(t, w.list())
}

func TestALPN(t *testing.T) {
	w := start(t, program(t, echo), func(c *Config) {
		c.Ports = append(c.Ports, proxy.Listen{Name: "sc-tls-grpc", Upstream: c.Ports[0].Upstream, H2: true})
	})
	for _, c := range []struct {
		port, want string
		offered    []string
	}{
		{strict, "", nil},
		{strict, "h2", []string{"h2"}},
		{strict, "http/1.1", []string{"h2", "http/1.1"}},
		{strict, "postgresql", []string{"postgresql"}},
		{strict, "", []string{"acme-tls/1"}},
		{strict, "", []string{"a", "b"}},
		{both, "http/1.1", []string{"h2", "http/1.1"}},
		{"sc-tls-grpc", "h2", []string{"h2", "http/1.1"}},
		{"sc-tls-grpc", "h2", []string{"h2"}},
		{"sc-tls-grpc", "http/1.1", []string{"http/1.1"}},
	} {
		for range 2 {
			tlsConn := w.tls(c.port, c.offered...)
			require.Equal(t, c.want, tlsConn.ConnectionState().NegotiatedProtocol, "%+v", c)
			send(t, tlsConn, "ping")
		}
	}
}

// httpProgram runs a program that answers with the protocol of a request, and returns its port.
func httpProgram(t *testing.T) uint16 {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := &http.Server{Protocols: &http.Protocols{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	})}
	served.Protocols.SetHTTP1(true)
	served.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(func() { _ = served.Close() })
	return uint16(listener.Addr().(*net.TCPAddr).Port)
}

// Real clients of HTTP: a browser that offers both protocols to a program with HTTP/1.1, and a client with
// HTTP/2 only, as for gRPC.
func TestHTTP(t *testing.T) {
	w := start(t, httpProgram(t), func(c *Config) {
		c.Ports = append(c.Ports, proxy.Listen{Name: "sc-tls-grpc", Upstream: c.Ports[0].Upstream, H2: true})
	})
	for _, c := range []struct {
		port, want   string
		http1, http2 bool
	}{
		{strict, "HTTP/1.1", true, true},
		{strict, "HTTP/2.0", false, true},
		{both, "HTTP/1.1", true, true},
		{"sc-tls-grpc", "HTTP/2.0", true, true},
		{"sc-tls-grpc", "HTTP/2.0", false, true},
		{"sc-tls-grpc", "HTTP/1.1", true, false},
	} {
		transport := &http.Transport{TLSClientConfig: clientConfig(), Protocols: &http.Protocols{}}
		transport.Protocols.SetHTTP1(c.http1)
		transport.Protocols.SetHTTP2(c.http2)
		client := &http.Client{Transport: transport, Timeout: patience}
		for range 3 {
			response, err := client.Get("https://" + w.address(c.port))
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.want, string(body), "%+v", c)
		}
		transport.CloseIdleConnections()
	}
}

func TestPostgreSQL(t *testing.T) {
	const (
		ssl     = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
		gss     = "\x00\x00\x00\x08\x04\xd2\x16\x30"
		startup = "\x00\x00\x00\x0c\x00\x03\x00\x00user"
	)
	w := start(t, program(t, echo))
	ask := func(c net.Conn, request, answer string) {
		t.Helper()
		_, err := io.WriteString(c, request)
		require.NoError(t, err)
		require.Equal(t, answer, receive(t, c, len(answer)))
	}
	overTLS := func(c net.Conn) {
		t.Helper()
		client := tls.Client(c, clientConfig("postgresql"))
		require.NoError(t, client.Handshake())
		require.Equal(t, "postgresql", client.ConnectionState().NegotiatedProtocol)
		send(t, client, startup)
	}
	for _, name := range []string{strict, both} {
		c := w.dial(name)
		ask(c, ssl, "S")
		overTLS(c)

		c = w.dial(name)
		ask(c, gss, "N")
		ask(c, ssl, "S")
		overTLS(c)

		c = w.dial(name)
		for i := range ssl { // byte by byte
			_, err := io.WriteString(c, ssl[i:i+1])
			require.NoError(t, err)
		}
		require.Equal(t, "S", receive(t, c, 1))
		overTLS(c)

		for _, after := range []string{ssl, gss, startup, "GET / HTTP/1.1\r\n"} { // after S, only TLS is accepted
			c = w.dial(name)
			ask(c, ssl, "S")
			_, err := io.WriteString(c, after)
			require.NoError(t, err)
			b, _ := io.ReadAll(c)
			require.Empty(t, b)
		}
	}
	c := w.dial(both)
	send(t, c, startup)
	c = w.dial(both)
	ask(c, gss, "N")
	send(t, c, startup)
	c = w.dial(strict)
	ask(c, gss, "N")
	_, err := io.WriteString(c, startup)
	require.NoError(t, err)
	b, _ := io.ReadAll(c)
	require.Empty(t, b)

	c = start(t, program(t, echo), soonSilent).dial(both)
	ask(c, ssl, "S")
	b, _ = io.ReadAll(c) // the client sends nothing more
	require.Empty(t, b, "the program gets no data")
}

func FuzzFirstBytes(f *testing.F) {
	w := start(f, program(f, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }), func(c *Config) {
		c.Limits.FirstByte = 20 * time.Millisecond
	})
	for _, seed := range []string{
		"", "\x16", "\x16\x03\x01\x00\x05\x01\x00\x00\x00\x00", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\x00\x00\x00\x08\x04\xd2\x16\x30\x00\x00\x00\x08\x04\xd2\x16\x2f", "GET / HTTP/1.1\r\n\r\n", "*1\r\n",
	} {
		f.Add([]byte(seed))
	}
	// Whatever a client sends, its connection ends when the client closes it, and the next one is served.
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &world{Server: w.Server, t: t}
		for _, name := range []string{strict, both} {
			c := w.dial(name)
			_, _ = c.Write(b)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
		_ = w.tls(strict).Close()
	})
}

// Protocols in which the server speaks first.
func TestServerFirst(t *testing.T) {
	greets := program(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "220 hello\r\n")
		echo(c)
	})
	w := start(t, greets)
	for _, name := range []string{strict, both} {
		c := w.tls(name)
		require.Equal(t, "220 hello\r\n", receive(t, c, 11))
		send(t, c, "EHLO")
	}
	w = start(t, greets, soonSilent)
	begun := time.Now()
	c := w.dial(both)
	require.Equal(t, "220 hello\r\n", receive(t, c, 11))
	require.GreaterOrEqual(t, time.Since(begun), w.cfg.Limits.FirstByte)
	send(t, c, "EHLO")
	require.Equal(t, proxy.KindSilent, w.list()[0].Kind)
}

// After the timeout, the side that sends first decides: a late ClientHello is TLS, a late request is
// plaintext, and the end of either side is passed on.
func TestSilence(t *testing.T) {
	var reached atomic.Int32
	speak := make(chan struct{})
	w := start(t, program(t, func(c *net.TCPConn) {
		if reached.Add(1) == 3 {
			<-speak
			_, _ = io.WriteString(c, "at last")
		}
		echo(c)
	}), soonSilent)
	late := w.dial(both)
	w.eventually("dialled", func() bool { return reached.Load() == 1 })
	client := tls.Client(late, clientConfig())
	require.NoError(t, client.Handshake())
	send(t, client, "ping")
	require.Empty(t, w.list())

	late = w.dial(both)
	w.eventually("dialled", func() bool { return reached.Load() == 2 })
	send(t, late, "*1\r\n$4\r\nPING\r\n")
	require.Len(t, w.list(), 1)

	late = w.dial(both)
	w.eventually("dialled", func() bool { return reached.Load() == 3 })
	close(speak)
	require.Equal(t, "at last", receive(t, late, 7))
	send(t, late, "ping")

	late = w.dial(both)
	w.eventually("dialled", func() bool { return reached.Load() == 4 })
	require.NoError(t, late.CloseWrite())
	b, err := io.ReadAll(late)
	require.NoError(t, err)
	require.Empty(t, b)
	require.Len(t, w.list(), 1)
	require.EqualValues(t, 2, w.of(both).counters.plaintext.Load())

	send(t, w.dial(both), "\x00") // fewer bytes than a ClientHello needs
}

func TestProxyV2(t *testing.T) {
	w := start(t, program(t, echo), func(c *Config) {
		for i := range c.Ports {
			c.Ports[i].ProxyV2 = true
		}
	})
	check := func(c net.Conn, raw *net.TCPConn) {
		t.Helper()
		_, err := io.WriteString(c, "ping")
		require.NoError(t, err)
		want := proxy.Header(raw.LocalAddr().(*net.TCPAddr).AddrPort(), raw.RemoteAddr().(*net.TCPAddr).AddrPort())
		require.Equal(t, string(want)+"ping", receive(t, c, len(want)+4))
	}
	raw := w.dial(both)
	check(raw, raw)
	raw = w.dial(strict)
	check(tls.Client(raw, clientConfig()), raw)
}

// The program may listen on 127.0.0.1, on ::1, or on the pod's address.
func TestWhereTheProgramListens(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "127.0.0.2:0"} {
		w := start(t, listen(t, address, echo), func(c *Config) {
			c.Upstream = append(c.Upstream, netip.MustParseAddr("127.0.0.2"))
		})
		for range 3 {
			send(t, w.tls(strict), "ping")
		}
		w.stop()
		assert.NotContains(t, w.logs.String(), "cannot connect", address)
	}
}

// A program that trusts loopback connections, as PostgreSQL does in many pg_hba.conf, must not trust the
// proxy's clients. So connections come from the pod's address, also to loopback. The kernel chooses the port
// at connect, so that ports of ended connections are available.
func TestTheProgramTakesNobodyForItsMachine(t *testing.T) {
	const pod = "127.0.0.2"
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		from := make(chan net.Addr, 1)
		w := start(t, listen(t, address, func(c *net.TCPConn) {
			from <- c.RemoteAddr()
			echo(c)
		}), func(c *Config) { c.Upstream = append(c.Upstream, netip.MustParseAddr(pod)) })
		send(t, w.tls(strict), "ping")
		assert.Equal(t, pod, (<-from).(*net.TCPAddr).IP.String(), address)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		at := netip.MustParseAddrPort(listener.Addr().String())
		own := map[bool]string{true: pod, false: "fd00::1"}[at.Addr().Is4()]
		d := newDialer([]netip.Addr{at.Addr(), netip.MustParseAddr(own)}, at.Port())
		w := d.ways[0]
		require.Equal(t, own, w.dialer.LocalAddr.(*net.TCPAddr).IP.String())
		w.dialer.LocalAddr = nil // this machine may not have the address
		c, err := w.dialer.Dial("tcp", w.address)
		require.NoError(t, err)
		raw, err := c.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			set, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_IP, bindAddressNoPort)
			require.NoError(t, err)
			require.Equal(t, 1, set, address)
		}))
		require.NoError(t, c.Close())
		require.NoError(t, listener.Close())
	}
}
