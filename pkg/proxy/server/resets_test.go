package server

import (
	"io"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A reset that arrives before data is copied is passed on too.
func TestEarlyResets(t *testing.T) {
	got := make(chan error, 1)
	w := start(t, program(t, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		got <- err
	}))
	hold, dialled := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	w.of(both).upstream.ways[0].dialer.Control = func(string, string, syscall.RawConn) error {
		close(dialled)
		<-hold
		return nil
	}
	client := w.dial(both)
	_, err := io.WriteString(client, "x")
	require.NoError(t, err)
	<-dialled
	require.NoError(t, client.SetLinger(0))
	require.NoError(t, client.Close())
	awaitReset(t, w.conns.all()[0].client.tcp.Load())
	release()
	require.ErrorIs(t, <-got, syscall.ECONNRESET, "the client resets while the program is dialled")

	w = start(t, program(t, func(c *net.TCPConn) { _ = c.SetLinger(0) }), soonSilent)
	_, err = io.ReadAll(w.dial(both))
	require.ErrorIs(t, err, syscall.ECONNRESET, "the program resets a silent client")
}

// awaitReset waits until the peer's reset has arrived. It does not take the error.
func awaitReset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	const closed = 7 // TCP_CLOSE
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	eventually(t, "reset", func() bool {
		var info *unix.TCPInfo
		require.NoError(t, raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
		require.NoError(t, err)
		return info.State == closed
	})
}

// A reset by the program that a write sees is passed on too: the next read gets an ordinary end.
func TestAResetThatAWriteSees(t *testing.T) {
	reset, got := make(chan struct{}), make(chan error, 1)
	w := start(t, program(t, func(c *net.TCPConn) {
		<-reset
		_ = c.SetLinger(0)
	}))
	client := newDialer(w.cfg.Upstream[:1], program(t, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		got <- err
	}))
	dialled, err := client.dial(t.Context())
	require.NoError(t, err)
	c := newConn(w.Server, w.of(both), dialled)
	t.Cleanup(func() { c.kill(true) })
	c.directions.Store(2)
	upstream, err := c.port.upstream.dial(t.Context())
	require.NoError(t, err)
	c.upstream.tcp.Store(upstream)
	socket, err := newSocket(upstream)
	require.NoError(t, err)
	close(reset)
	awaitReset(t, upstream)
	require.ErrorIs(t, c.send(&c.upstream, []byte("x")), errUpstreamGone)
	c.pump(&c.upstream, &c.client, socket, nil)
	require.ErrorIs(t, <-got, syscall.ECONNRESET)
}
