package server

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/test/bounded"
)

// unfinished is what a peer sends to have much kept: records with data, and the pieces of a handshake message that does not
// end. crypto/tls doubles a buffer if a piece does not fit. Of the last record, only the header is sent.
type unfinished struct {
	seal    func(inner []byte) []byte // nil before there are keys
	data    []int
	message byte
	pieces  []int
}

const (
	declared = 0xfde8  // the length of the message
	largest  = 1 << 14 // that of a record, at most
)

// serverHello is that of TLS 1.2.
var serverHello = append([]byte{22, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3}, append(make([]byte, 33), 0xc0, 0x2b, 0)...)

func (u unfinished) to(peer *net.TCPConn) {
	content := append([]byte{u.message, 0, declared >> 8, declared & 0xff}, make([]byte, declared)...)
	send := func(kind byte, content []byte) {
		if u.seal == nil {
			_, _ = peer.Write(append(binary.BigEndian.AppendUint16([]byte{kind, 3, 3}, uint16(len(content))), content...))
			return
		}
		_, _ = peer.Write(u.seal(append(bytes.Clone(content), kind)))
	}
	for _, n := range u.data {
		send(23, make([]byte, n))
	}
	for _, n := range u.pieces {
		send(22, content[:n])
		content = content[n:]
	}
	if len(u.pieces) > 0 {
		_, _ = peer.Write(binary.BigEndian.AppendUint16([]byte{22 + byte(min(1, len(u.data))), 3, 3}, largest))
	}
}

// keys makes a handshake, and returns what seals the records of its side, or nil. It keeps nothing else of TLS.
func keys(t *testing.T, side string, raw *net.TCPConn, role func(net.Conn, *tls.Config) *tls.Conn, config *tls.Config) func([]byte) []byte {
	t.Helper()
	var secrets bytes.Buffer
	config = config.Clone()
	config.KeyLogWriter, config.SessionTicketsDisabled = &secrets, true
	if role(raw, config).Handshake() != nil {
		return nil
	}
	return sealer(t, secrets.String(), side)
}

// allRead reports whether n connections are open, and all that their peers have sent was read.
func (w *world) allRead(n int) bool {
	all := w.conns.all()
	return len(all) == n && !slices.ContainsFunc(all, func(c *conn) bool {
		return unread(c.client.tcp.Load()) || c.port.out != nil && (c.upstream.tcp.Load() == nil || unread(c.upstream.tcp.Load()))
	})
}

func unread(c *net.TCPConn) bool {
	left := 0
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return left > 0
}

func memory() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// Whatever its peers send, a connection keeps less than what is reserved for it.
func TestMemoryOfAConnection(t *testing.T) {
	largeInUse.Store(mostLarge) // these are reserved apart
	defer largeInUse.Store(0)
	svc := newService(t)
	accepted := make(chan *net.TCPConn, 1000)
	behind := func(serve func(*net.TCPConn)) uint16 { // without a goroutine for each, which would count
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				serve(c.(*net.TCPConn))
				accepted <- c.(*net.TCPConn)
			}
		}()
		return uint16(l.Addr().(*net.TCPAddr).Port)
	}
	long := make([]byte, 8<<20)
	endless := func(c *net.TCPConn) { // what the kernel takes is more than the client does
		raw, _ := c.SyscallConn()
		_ = raw.Control(func(fd uintptr) { _, _ = unix.Write(int(fd), long) })
	}
	g := startGuarded(t, behind(endless), both+"=any", svc.connects)
	small, large := g.ca.issue(t, cart), g.ca.issue(t, cart, bytesOfExtension(17<<10))
	begin := func(name string, pieces ...int) func() {
		return func() { unfinished{message: 1, pieces: pieces}.to(g.dial(name)) }
	}
	established := func(name string, cert *tls.Certificate, u unfinished) func() {
		return func() {
			raw := g.dial(name)
			u.seal = keys(t, "CLIENT", raw, tls.Client, presenting(cert))
			require.NotNil(t, u.seal)
			u.to(raw)
		}
	}
	server := func(serve func(c *net.TCPConn)) func() {
		port := uint32(behind(serve))
		return func() {
			svc.server.Store(port)
			g.dial(atOnce)
		}
	}
	config := svc.config()
	for name, open := range map[string]func(){
		"a ClientHello":                begin(strict, largest, 3000),
		"a ClientHello in pieces":      begin(strict, 9472, 9472, 500),
		"a ClientHello, guarded":       begin(both, 10880, 10880, 500),
		"idle":                         established(strict, nil, unfinished{}),
		"a message":                    established(strict, nil, unfinished{message: 24, pieces: []int{largest, 3000}}),
		"data and a message":           established(strict, nil, unfinished{data: []int{15800, largest}, message: 24, pieces: []int{9472, 9472, 500}}),
		"data and a message, guarded":  established(both, small, unfinished{data: []int{15800, largest}, message: 24, pieces: []int{10880, 10880, 500}}),
		"the same after a certificate": established(both, large, unfinished{data: []int{15800, largest}, message: 24, pieces: []int{10880, 10880, 500}}),
		"a server's certificate": server(func(c *net.TCPConn) {
			_, _ = io.ReadAtLeast(c, make([]byte, 1<<12), 64)
			_, _ = c.Write(serverHello)
			unfinished{message: 11, pieces: []int{15800, largest, 1000}}.to(c)
		}),
		"a server's data and message": server(func(c *net.TCPConn) {
			seal := keys(t, "SERVER", c, tls.Server, config)
			unfinished{seal: seal, data: []int{15800, largest}, message: 4, pieces: []int{15800, largest, 1000}}.to(c)
		}),
	} {
		const n = 100
		served := 1 - strings.Count(name, "Hello")
		open()
		g.eventually("one", func() bool { return len(accepted) == served && g.allRead(1) })
		before := memory()
		for range n {
			open()
		}
		g.eventually(name, func() bool { return len(accepted) == served*(n+1) && g.allRead(n+1) })
		each := (memory() - before) / n
		t.Logf("%-30s %6d bytes", name, each)
		assert.Less(t, each, proxy.ConnectionMemory*bounded.RaceFactor, name)
		for _, c := range g.conns.all() {
			c.kill(true)
		}
		g.eventually("ended", func() bool { return g.conns.len() == 0 })
		for len(accepted) > 0 {
			_ = (<-accepted).Close()
		}
	}
}

// Clients that send messages without an end, before and after the handshake, do not bring a proxy of 64 MiB to its limit. It
// is a process of its own, with the soft limit that cmd/proxy would set.
func TestTheMemoryOfAnAttackedProxy(t *testing.T) {
	const limit, attackers = 64 << 20, 2432
	if os.Getenv("GOMEMLIMIT") != "" {
		w := start(t, program(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }), func(c *Config) {
			c.Limits.MaxConnections, c.Limits.Handshake = proxy.Connections(0, 1<<20, limit), time.Hour
		})
		fmt.Println(w.at(strict).Port)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), fmt.Sprint("GOMEMLIMIT=", limit/10*8))
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	_, err = fmt.Fscanln(stdout, &at.Port)
	require.NoError(t, err)
	begun, err := process.PeakRSS(child.Process.Pid)
	require.NoError(t, err)
	for what, u := range map[string]unfinished{
		"a ClientHello": {message: 1, pieces: []int{largest, 3000}},
		"a message":     {message: 24, data: []int{15800, largest}, pieces: []int{9472, 9472, 500}},
	} {
		var all []*net.TCPConn
		for range attackers {
			c, err := net.DialTCP("tcp", nil, at)
			if err != nil {
				continue // refused
			}
			all = append(all, c)
			if u.data != nil {
				u.seal = keys(t, "CLIENT", c, tls.Client, clientConfig())
			}
			if u.data == nil || u.seal != nil {
				u.to(c)
			}
		}
		require.GreaterOrEqual(t, len(all), proxy.Connections(0, 1<<20, limit), "the attack used up all connections")
		peak, err := process.PeakRSS(child.Process.Pid)
		require.NoError(t, err)
		t.Logf("%s: %.0f MiB, and %.0f MiB more when attacked", what, begun/(1<<20), (peak-begun)/(1<<20))
		assert.Less(t, peak-begun, float64((limit-proxy.OwnMemory)*bounded.RaceFactor))
		for _, c := range all {
			_ = c.Close()
		}
	}
	require.NoError(t, stdin.Close())
	require.NoError(t, child.Wait())
}
