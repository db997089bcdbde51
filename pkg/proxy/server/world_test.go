package server

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// patience bounds every wait.
const patience = process.Soon

// pair is a self-signed certificate and its key, in PEM.
type pair struct{ cert, key []byte }

func newPair(t testing.TB, serial int64) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return newPairOf(t, serial, key)
}

func newPairOf(t testing.TB, serial int64, key crypto.Signer) pair {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"web.shop.svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}
}

// volume is a directory as the kubelet writes it: its files are links into ..data, a link that is replaced.
type volume struct {
	dir     string
	version int
}

func newVolume(t testing.TB, p pair) *volume {
	t.Helper()
	v := &volume{dir: t.TempDir()}
	v.swap(t, p)
	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink("..data/"+name, filepath.Join(v.dir, name)))
	}
	return v
}

func (v *volume) swap(t testing.TB, p pair) {
	t.Helper()
	v.version++
	name := fmt.Sprintf("..%d", v.version)
	require.NoError(t, os.Mkdir(filepath.Join(v.dir, name), 0o755)) //nolint:gosec // as the kubelet makes it
	require.NoError(t, os.WriteFile(filepath.Join(v.dir, name, "tls.crt"), p.cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(v.dir, name, "tls.key"), p.key, 0o600))
	temporary := filepath.Join(v.dir, "..data_tmp")
	require.NoError(t, os.Symlink(name, temporary))
	require.NoError(t, os.Rename(temporary, filepath.Join(v.dir, "..data")))
	if v.version > 1 {
		require.NoError(t, os.RemoveAll(filepath.Join(v.dir, fmt.Sprintf("..%d", v.version-1))))
	}
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is a running Server in front of a program.
type world struct {
	*Server
	t      testing.TB
	volume *volume
	logs   *lockedBuffer
	stop   func() // ends the Server, and waits for it
}

const (
	strict = "sc-tls-8080"
	both   = "sc-any-8080"
)

// start runs a Server with a port for TLS and one for both, in front of the program's port. At the end of the
// test it stops the Server, and requires that nothing leaks.
func start(t testing.TB, program uint16, change ...func(*Config)) *world {
	t.Helper()
	checkLeaks(t)
	w := &world{t: t, volume: newVolume(t, newPair(t, 1)), logs: &lockedBuffer{}}
	cfg := Config{
		Ports: []proxy.Listen{
			{Name: strict, Upstream: program},
			{Name: both, Upstream: program, Plaintext: true},
		},
		CertDir:  w.volume.dir,
		Upstream: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()},
		Limits:   proxy.DefaultLimits(),
		Clock:    time.Now,
		Log:      slog.New(slog.NewTextHandler(w.logs, nil)),
	}
	cfg.Limits.MaxConnections, cfg.Limits.FirstByte, cfg.Limits.Drain = 1000, patience, 0
	for _, f := range change {
		f(&cfg)
	}
	w.Server = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(w.stop)
	w.eventually("listening", w.ready.Load)
	return w
}

// soonSilent is for tests with a silent client. In other tests, a client on a busy machine may need longer.
func soonSilent(c *Config) { c.Limits.FirstByte = 200 * time.Millisecond }

func (w *world) eventually(what string, f func() bool) {
	w.t.Helper()
	eventually(w.t, what, f)
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not within %s: %s", patience, what)
	}
}

func (w *world) of(name string) *port {
	for _, p := range w.ports {
		if p.Name == name {
			return p
		}
	}
	require.Fail(w.t, "no port "+name)
	return nil
}

// serving returns the number of established connections.
func (w *world) serving() int {
	w.conns.mu.Lock()
	defer w.conns.mu.Unlock()
	return w.conns.serving.Len()
}

// list returns the plaintext clients.
func (w *world) list() []proxy.Client {
	w.clientsMu.Lock()
	defer w.clientsMu.Unlock()
	return w.clients.List(w.cfg.Clock()).Clients
}

// at returns the address of a port of the proxy.
func (w *world) at(name string) *net.TCPAddr {
	at := *w.of(name).listener.Addr().(*net.TCPAddr)
	if w.of(name).out == nil {
		at.IP = net.IPv4(127, 0, 0, 1)
	}
	return &at
}

func (w *world) address(name string) string { return w.at(name).String() }

// dial connects to a port of the proxy.
func (w *world) dial(name string) *net.TCPConn {
	w.t.Helper()
	c, err := net.DialTCP("tcp", nil, w.at(name))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	require.NoError(w.t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

func clientConfig(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols} //nolint:gosec // self-signed certificates
}

// tls makes a handshake with a port.
func (w *world) tls(name string, protocols ...string) *tls.Conn {
	w.t.Helper()
	c := tls.Client(w.dial(name), clientConfig(protocols...))
	require.NoError(w.t, c.Handshake())
	return c
}

func serial(c *tls.Conn) int64 { return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64() }

// send sends a line, and requires the same line back.
func send(t testing.TB, c net.Conn, line string) {
	t.Helper()
	_, err := io.WriteString(c, line)
	require.NoError(t, err)
	require.Equal(t, line, receive(t, c, len(line)))
}

func receive(t testing.TB, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return string(b)
}

// listen runs a program, one goroutine for each connection, and returns its port.
func listen(t testing.TB, address string, serve func(*net.TCPConn)) uint16 {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	var group sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	group.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	return uint16(listener.Addr().(*net.TCPAddr).Port)
}

func program(t testing.TB, serve func(*net.TCPConn)) uint16 {
	t.Helper()
	return listen(t, "127.0.0.1:0", serve)
}

// echo returns all data, and closes when its client does.
func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

// checkLeaks compares goroutines and descriptors at the end of the test with those now. Call it first, so that
// it runs after all other cleanups.
func checkLeaks(t testing.TB) {
	if flag.Lookup("test.fuzz").Value.String() != "" {
		return // fuzzing has goroutines of its own
	}
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	t.Cleanup(func() {
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			if runtime.NumGoroutine() <= goroutines && descriptors(t) <= files {
				return
			}
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				require.Fail(t, "leaked", "%d goroutines, were %d; %d descriptors, were %d\n%s", runtime.NumGoroutine(), goroutines, descriptors(t), files, stacks)
			}
		}
	})
}

func descriptors(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	n := 0
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}
