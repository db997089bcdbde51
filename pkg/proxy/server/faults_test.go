package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/skip"
)

// halfCloser is a connection that can be closed in one direction.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// connections returns a plaintext and a TLS connection to the proxy.
func (w *world) connections() map[string]halfCloser {
	plain := w.dial(both)
	_, err := io.WriteString(plain, "x") // the kind is known at once
	require.NoError(w.t, err)
	return map[string]halfCloser{"TLS": w.tls(strict), "plaintext": plain}
}

// A client that has closed its side still gets the whole response.
func TestHalfClosedByTheClient(t *testing.T) {
	w := start(t, program(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(c) // until the client ends its side
		_, _ = c.Write(bytes.Repeat([]byte("y"), 100_000))
		_, _ = fmt.Fprintf(c, "%d", len(b))
	}))
	for name, c := range w.connections() {
		_, err := c.Write(make([]byte, 200_000))
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		b, err := io.ReadAll(c)
		require.NoError(t, err, name)
		require.Len(t, b, 100_006, name)
	}
}

// A program that has closed its side still gets all data of the client.
func TestHalfClosedByTheProgram(t *testing.T) {
	got := make(chan int, 2)
	w := start(t, program(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "that is all")
		_ = c.CloseWrite()
		b, _ := io.ReadAll(c)
		got <- len(b)
	}))
	for name, c := range w.connections() {
		b, err := io.ReadAll(c)
		require.NoError(t, err, name)
		require.Equal(t, "that is all", string(b), name)
		_, err = c.Write(make([]byte, 200_000))
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		require.GreaterOrEqual(t, <-got, 200_000, name)
	}
}

// A reset on one side becomes a reset on the other, in each state, and no connection leaks.
func TestResets(t *testing.T) {
	programGot := make(chan error, 10)
	w := start(t, program(t, func(c *net.TCPConn) {
		b := make([]byte, 1)
		for {
			if _, err := c.Read(b); err != nil {
				programGot <- err
				return
			}
			if b[0] == 'r' {
				_ = c.SetLinger(0)
				return
			}
		}
	}), soonSilent)
	reset := func(c *net.TCPConn) {
		require.NoError(t, c.SetLinger(0))
		require.NoError(t, c.Close())
	}
	raw := w.dial(strict)
	client := tls.Client(raw, clientConfig())
	require.NoError(t, client.Handshake())
	_, err := io.WriteString(client, "x")
	require.NoError(t, err)
	reset(raw)
	require.ErrorIs(t, <-programGot, syscall.ECONNRESET, "the client resets TLS")
	w.eventually("the connection is gone", func() bool { return w.conns.len() == 0 }) // so that the next wait is for the next connection

	raw = w.dial(both)
	_, err = io.WriteString(raw, "x")
	require.NoError(t, err)
	w.eventually("forwarded", func() bool { return w.serving() > 0 })
	reset(raw)
	require.ErrorIs(t, <-programGot, syscall.ECONNRESET, "the client resets plaintext")

	for name, c := range w.connections() {
		_, err := io.WriteString(c, "r")
		require.NoError(t, err)
		_, err = io.ReadAll(c)
		require.ErrorIs(t, err, syscall.ECONNRESET, "the program resets %s", name)
	}
	for _, first := range []string{"\x16\x03", "\x16\x03\x01\x00\xc8\x01\x00\x00", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\x00", "GET / "} {
		for _, name := range []string{strict, both} {
			raw = w.dial(name)
			_, err = io.WriteString(raw, first)
			require.NoError(t, err)
			reset(raw)
		}
	}
	raw = w.dial(both) // silent, and dialled
	w.eventually("dialled", func() bool { all := w.conns.all(); return len(all) == 1 && all[0].upstream.tcp.Load() != nil })
	reset(raw)
	w.eventually("all have ended", func() bool { return w.conns.len() == 0 })
}

// A connection is closed if its bytes are no longer valid TLS.
func TestBrokenTLS(t *testing.T) {
	w := start(t, program(t, echo))
	for name, bad := range map[string][]byte{
		"garbage":               bytes.Repeat([]byte{0xff}, 64),
		"record that is broken": append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...),
		"16 KB of zeros":        append([]byte{23, 3, 3, 0x40, 0}, make([]byte, 1<<14)...),
		"too long":              {23, 3, 3, 0xff, 0xff, 0, 0},
	} {
		raw := w.dial(strict)
		client := tls.Client(raw, clientConfig())
		require.NoError(t, client.Handshake(), name)
		send(t, client, "ping")
		_, err := raw.Write(bad)
		require.NoError(t, err)
		_, err = io.ReadAll(client)
		require.Error(t, err, name)
	}
	for name, first := range map[string]string{
		"ClientHello of garbage": "\x16\x03\x01\x00\x08\x01\x00\x00\x04\xff\xff\xff\xff",
		"TLS 1.1":                "",
	} {
		raw := w.dial(strict)
		if first == "" {
			config := clientConfig()
			config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			require.Error(t, tls.Client(raw, config).Handshake(), name)
			continue
		}
		_, err := io.WriteString(raw, first)
		require.NoError(t, err)
		_, _ = io.ReadAll(raw)
	}
	w.eventually("all have ended", func() bool { return w.conns.len() == 0 })
}

// Renegotiation in TLS 1.2 is refused with an alert, and the connection is closed. Data that is sent with the
// request does not reach the program.
func TestRenegotiation(t *testing.T) {
	skip.WithoutPrograms(t, "openssl")
	got := make(chan string, 1)
	w := start(t, program(t, func(c *net.TCPConn) {
		line, _ := bufio.NewReader(io.TeeReader(c, c)).ReadString('\n')
		rest, _ := io.ReadAll(c)
		got <- line + string(rest)
	}))
	client := exec.CommandContext(t.Context(), "openssl", "s_client", "-connect", w.address(strict), "-tls1_2", "-legacy_renegotiation")
	var complaints bytes.Buffer
	client.Stderr = &complaints
	stdin, err := client.StdinPipe()
	require.NoError(t, err)
	stdout, err := client.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, client.Start())
	_, err = io.WriteString(stdin, "ping\n")
	require.NoError(t, err)
	said := bufio.NewReader(stdout)
	for line := ""; line != "ping\n"; { // the lines before it describe the handshake
		line, err = said.ReadString('\n')
		require.NoError(t, err)
	}
	_, err = io.WriteString(stdin, "R\n") // openssl's command to renegotiate
	require.NoError(t, err)
	require.Equal(t, "ping\n", <-got)
	_, err = io.Copy(io.Discard, said)
	require.NoError(t, err)
	require.Error(t, client.Wait())
	require.Contains(t, complaints.String(), "alert unexpected message")
	w.eventually("it has ended", func() bool { return w.conns.len() == 0 })
	send(t, w.tls(strict), "ping\n")
}

// Clients that are slow in the handshake, or before it, are closed after the handshake timeout.
func TestSlowBeginnings(t *testing.T) {
	var reached atomic.Int32
	w := start(t, program(t, func(*net.TCPConn) { reached.Add(1) }), func(c *Config) { c.Limits.Handshake = 300 * time.Millisecond })
	for _, first := range []string{"", "\x16\x03", "\x16\x03\x01\x00\xc8\x01\x00\x00"} {
		c := w.dial(strict)
		_, err := io.WriteString(c, first)
		require.NoError(t, err)
		_, _ = io.ReadAll(c)
	}
	c := w.dial(both)
	_, err := io.WriteString(c, "\x16\x03\x01\x00\xc8\x01\x00\x00")
	require.NoError(t, err)
	_, _ = io.ReadAll(c)
	w.eventually("counted", func() bool {
		return w.of(strict).counters.handshakeTimeouts.Load() == 3 && w.of(both).counters.handshakeTimeouts.Load() == 1
	})
	require.Zero(t, reached.Load())
}

// Programs that do not listen, close at once, or never accept.
func TestProgramsThatDoNotAnswer(t *testing.T) {
	gone := start(t, listenAndClose(t))
	_, err := io.ReadAll(gone.tls(strict))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	plain := gone.dial(both)
	_, err = io.WriteString(plain, "x")
	require.NoError(t, err)
	_, err = io.ReadAll(plain)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.EqualValues(t, 1, gone.of(strict).counters.upstreamErrors.Load())
	require.Contains(t, gone.logs.String(), "cannot connect to the program")

	ends := start(t, program(t, func(*net.TCPConn) {}), soonSilent)
	for name, c := range map[string]net.Conn{"TLS": ends.tls(strict), "plaintext": ends.dial(both)} {
		b, _ := io.ReadAll(c)
		require.Empty(t, b, name)
	}

	// The queue of this port is full: a connection is neither made nor refused.
	full := start(t, fullPort(t))
	for i := range full.of(strict).upstream.ways {
		full.of(strict).upstream.ways[i].dialer.Timeout = 200 * time.Millisecond
	}
	_, err = io.ReadAll(full.tls(strict))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.EqualValues(t, 1, full.of(strict).counters.upstreamErrors.Load())
}

func listenAndClose(t *testing.T) uint16 {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return uint16(listener.Addr().(*net.TCPAddr).Port)
}

func fullPort(t *testing.T) uint16 {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	port := uint16(name.(*syscall.SockaddrInet4).Port)
	for { // until the queue is full
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 200*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// If one side does not read, the other blocks once the buffers of the kernel are full. Other connections do
// not block.
func TestBackpressure(t *testing.T) {
	read := make(chan struct{})
	w := start(t, program(t, func(c *net.TCPConn) {
		<-read
		_, _ = io.Copy(c, c)
	}))
	const most = 1 << 30
	for name, c := range w.connections() {
		sent := 0
		chunk := make([]byte, 1<<16)
		for sent < most {
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
			n, err := c.Write(chunk)
			sent += n
			if errors.Is(err, context.DeadlineExceeded) || err != nil {
				break
			}
		}
		require.Less(t, sent, most, name)
		t.Logf("%s: blocked after %d KiB", name, sent>>10)
	}
	close(read)
	send(t, w.tls(strict), "others")
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	w := start(t, program(t, echo), func(c *Config) { c.Limits.Idle = 5 * time.Second })
	busy := w.tls(strict)
	idle := w.connections()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for name, c := range idle {
			_, err := io.ReadAll(c)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, name)
		}
	}()
	begun := time.Now()
	for open := true; open || time.Since(begun) < 2*w.cfg.Limits.Idle; time.Sleep(20 * time.Millisecond) {
		send(t, busy, "ping")
		select {
		case <-closed:
			open = false
		default:
		}
	}
	require.EqualValues(t, 1, w.of(strict).counters.expired.Load())
}

// At the maximum, the proxy closes the oldest connection that is not established, and refuses new ones only if there
// is none.
func TestMaxConnections(t *testing.T) {
	w := start(t, program(t, echo), func(c *Config) { c.Limits.MaxConnections = 10 })
	var kept []net.Conn
	for range 9 {
		kept = append(kept, w.tls(strict))
	}
	w.eventually("established", func() bool { return w.serving() == 9 })
	oldest := w.dial(strict)
	w.eventually("accepted", func() bool { return w.conns.len() == 10 })
	kept = append(kept, w.tls(strict))
	b, err := io.ReadAll(oldest)
	require.NoError(t, err)
	require.Empty(t, b)
	require.EqualValues(t, 1, w.of(strict).counters.evicted.Load())
	w.eventually("established", func() bool { return w.serving() == 10 })
	refused, err := net.Dial("tcp", w.address(strict))
	if err == nil {
		_, err = io.ReadAll(refused)
		require.NoError(t, refused.Close())
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.EqualValues(t, 1, w.of(strict).counters.refused.Load())
	for _, c := range kept {
		send(t, c, "ping")
	}
	require.NoError(t, kept[0].Close())
	w.eventually("room", func() bool { return w.conns.len() == 9 })
	send(t, w.tls(strict), "ping")
	w.stop()
	require.Zero(t, w.of(strict).counters.probes.Load(), "a connection that the proxy closed is no probe")
}

// A proxy with at most 2000 connections gets thousands of silent ones. A working client is served throughout,
// and no connection leaks.
func TestManySilentConnections(t *testing.T) {
	w := start(t, program(t, echo), func(c *Config) {
		c.Limits.MaxConnections, c.Limits.FirstByte = 2000, time.Minute
	})
	const held = 4000
	all := 6000
	if bounded.Long {
		all = 20_000
	}
	var silent [held]*net.TCPConn
	t.Cleanup(func() {
		for _, c := range silent {
			_ = c.Close()
		}
	})
	works := w.tls(strict)
	slowest := time.Duration(0)
	for i := range all {
		name := []string{strict, both}[i%2]
		c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: w.of(name).listener.Addr().(*net.TCPAddr).Port})
		require.NoError(t, err, "connection %d", i)
		if silent[i%held] != nil {
			_ = silent[i%held].Close()
		}
		silent[i%held] = c
		if i%1000 == 999 {
			begun := time.Now()
			send(t, w.tls(strict), "ping")
			require.NoError(t, works.SetDeadline(time.Now().Add(patience)))
			send(t, works, "ping")
			slowest = max(slowest, time.Since(begun))
			require.LessOrEqual(t, w.conns.len(), 2000)
		}
	}
	t.Logf("the slowest new connection with a request took %s", slowest)
	require.LessOrEqual(t, strings.Count(w.logs.String(), "\n"), 40)
	for _, c := range silent {
		require.NoError(t, c.Close())
	}
	w.eventually("only the working connections are left", func() bool { return w.conns.len() <= all/1000+1 })
}
