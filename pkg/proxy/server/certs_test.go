package server

import (
	"crypto/tls"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/test/bounded"
)

// Files that the kubelet replaces are reloaded, and sessions with the old certificate are not resumed.
func TestRenewal(t *testing.T) {
	w := start(t, program(t, echo))
	for i, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		first, second := int64(2*i+2), int64(2*i+3) // the volume begins with 1
		w.volume.swap(t, newPair(t, first))
		config := clientConfig()
		config.ClientSessionCache, config.MaxVersion = tls.NewLRUClientSessionCache(1), version
		config.ServerName = "web.shop.svc"
		connect := func() tls.ConnectionState {
			c := tls.Client(w.dial(strict), config)
			require.NoError(t, c.Handshake())
			send(t, c, "ping") // and with it, read the ticket
			require.NoError(t, c.Close())
			return c.ConnectionState()
		}
		w.eventually("the first certificate", func() bool { return connect().PeerCertificates[0].SerialNumber.Int64() == first })
		connect()
		require.True(t, connect().DidResume)
		before := w.tls(strict)
		w.volume.swap(t, newPair(t, second))
		begun := time.Now()
		w.eventually("the second certificate", func() bool {
			state := connect()
			if state.PeerCertificates[0].SerialNumber.Int64() != second {
				return false
			}
			require.False(t, state.DidResume)
			return true
		})
		t.Logf("served after %s", time.Since(begun))
		require.True(t, connect().DidResume)
		send(t, before, "an earlier connection continues")
	}
	require.Zero(t, strings.Count(w.logs.String(), "cannot load"))
}

// A post-quantum certificate is served by TLS 1.3 only, which has its signatures.
func TestAPostQuantumCertificate(t *testing.T) {
	key, err := pki.GenerateKey(pki.MLDSA65)
	require.NoError(t, err)
	w := start(t, program(t, echo))
	w.volume.swap(t, newPairOf(t, 7, key))
	connect := func(version uint16) (tls.ConnectionState, error) {
		config := clientConfig()
		config.MaxVersion = version
		c := tls.Client(w.dial(strict), config)
		defer func() { _ = c.Close() }()
		err := c.Handshake()
		return c.ConnectionState(), err
	}
	w.eventually("the certificate", func() bool {
		state, err := connect(tls.VersionTLS13)
		return err == nil && state.PeerCertificates[0].SerialNumber.Int64() == 7
	})
	_, err = connect(tls.VersionTLS12)
	require.ErrorContains(t, err, "remote error: tls", "the proxy refuses it")
}

// No connection is refused or lost during many renewals, whether it is new or open.
func TestManyRenewals(t *testing.T) {
	w := start(t, program(t, echo))
	pairs := []pair{newPair(t, 1), newPair(t, 2), newPair(t, 3)}
	kept := []*tls.Conn{w.tls(strict), w.tls(both)}
	// The test reloads instead of the Server's goroutine, so that each renewal is loaded.
	followed := newCerts(w.volume.dir, w.log)
	followed.look()
	w.certs.current.Store(followed.current.Load())
	more, done := make(chan bool), make(chan int)
	go func() {
		n := 0
		for range more {
			c, err := tls.Dial("tcp", w.address(strict), clientConfig())
			if err == nil {
				_, err = io.WriteString(c, "ping")
			}
			if err == nil {
				_, err = io.ReadFull(c, make([]byte, 4))
			}
			if err != nil {
				t.Errorf("connection %d: %v", n, err)
				continue
			}
			_ = c.Close()
			n++
		}
		done <- n
	}()
	renewals := 500
	if bounded.Long {
		renewals = 10_000
	}
	for i := range renewals {
		w.volume.swap(t, pairs[i%len(pairs)])
		before := followed.current.Load()
		followed.look()
		require.NotSame(t, before, followed.current.Load(), "renewal %d is not served", i)
		w.certs.current.Store(followed.current.Load())
		if i%5 == 0 { // another connection, unless the last one is still in use
			select {
			case more <- true:
			default:
			}
		}
		if i%100 == 0 {
			for _, c := range kept {
				require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
				send(t, c, "ping")
			}
		}
	}
	close(more)
	n := <-done
	t.Logf("%d connections in %d renewals", n, renewals)
	require.Positive(t, n)
	for _, c := range kept {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		send(t, c, "ping")
	}
}

// While the files cannot be loaded, the previous certificate is served. The error is logged once.
func TestFilesThatCannotBeServed(t *testing.T) {
	good, other := newPair(t, 1), newPair(t, 2)
	for name, spoil := range map[string]func(dir string) error{
		"vanished":     func(dir string) error { return os.Remove(filepath.Join(dir, "tls.key")) },
		"half swapped": func(dir string) error { return os.WriteFile(filepath.Join(dir, "tls.crt"), other.cert, 0o600) },
		"another key":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "tls.key"), other.key, 0o600) },
		"empty":        func(dir string) error { return os.WriteFile(filepath.Join(dir, "tls.crt"), nil, 0o600) },
		"garbage":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "tls.key"), []byte("garbage"), 0o600) },
		"too large": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "tls.crt"), make([]byte, 2*largestFile), 0o600)
		},
		"no link": func(dir string) error {
			return os.Rename(dir, dir+"-gone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, logs := newVolume(t, good), &lockedBuffer{}
			c := newCerts(v.dir, newTestLog(logs))
			c.look()
			served := c.current.Load()
			require.NotNil(t, served)
			data, err := filepath.EvalSymlinks(filepath.Join(v.dir, "..data"))
			require.NoError(t, err)
			require.NoError(t, spoil(data))
			c.look()
			require.False(t, c.failing.Load(), "files may be replaced one after the other")
			for range 5 {
				c.look()
				require.True(t, c.failing.Load())
				require.Same(t, served, c.current.Load())
			}
			require.Equal(t, 1, strings.Count(logs.String(), "cannot load the certificate files, serving the previous certificate"), logs.String())
			require.NotContains(t, logs.String(), "PRIVATE")

			v.swap(t, other)
			c.look()
			require.False(t, c.failing.Load())
			require.NotSame(t, served, c.current.Load())
			require.EqualValues(t, 1, c.reloads.Load())
		})
	}
}

// If invalid files are restored, the same configuration with its session tickets stays in use.
func TestMendedFiles(t *testing.T) {
	good := newPair(t, 1)
	v := newVolume(t, good)
	c := newCerts(v.dir, newTestLog(io.Discard))
	c.look()
	served := c.current.Load()
	v.swap(t, pair{good.cert, newPair(t, 2).key})
	c.look()
	c.look()
	require.True(t, c.failing.Load())
	v.swap(t, good)
	c.look()
	require.False(t, c.failing.Load())
	require.Same(t, served, c.current.Load())
}

// The proxy does not listen before it has a certificate, and logs the reason.
func TestNothingIsListenedOnWithoutACertificate(t *testing.T) {
	empty, sockets := t.TempDir(), descriptors(t)
	w := unready(t, func(c *Config) {
		c.CertDir, c.Ports = empty, []proxy.Listen{{Name: strict, Upstream: 1}}
	})
	w.eventually("reported", func() bool { return strings.Contains(w.logs.String(), "waiting for the certificate") })
	require.False(t, w.ready.Load())
	require.Equal(t, sockets, descriptors(t))
	p := newPair(t, 7)
	require.NoError(t, os.WriteFile(filepath.Join(empty, "tls.crt"), p.cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(empty, "tls.key"), p.key, 0o600))
	w.eventually("listening", w.ready.Load)
	require.EqualValues(t, 7, serial(w.tls(strict)))
}
