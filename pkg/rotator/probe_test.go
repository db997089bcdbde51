package rotator

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/pki"
)

// long is a timeout that is not meant to pass.
const long = 20 * time.Second

// accept answers every connection to a new listener on host.
func accept(t *testing.T, host string, answer func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answering.Go(func() {
				defer func() { _ = conn.Close() }()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		answering.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// handshakes answers with TLS, and reads until the client is gone.
func handshakes(cfg *tls.Config) func(net.Conn) {
	return func(conn net.Conn) {
		server := tls.Server(conn, cfg)
		if server.Handshake() == nil {
			_, _ = io.Copy(io.Discard, server)
		}
	}
}

func TestProbeShowsTheLeaf(t *testing.T) {
	pair := newCA(t, 1, time.Now()).issue(t, time.Now(), "web.shop.svc")
	with := func(change func(*tls.Config)) *tls.Config {
		cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10}
		change(cfg)
		return cfg
	}
	expired := newCA(t, 1, time.Now()).issue(t, time.Now().Add(-48*time.Hour), "web.shop.svc")
	tests := map[string]struct {
		host string
		cfg  *tls.Config
		want *x509.Certificate
	}{
		"TLS 1.3":                             {"127.0.0.1", with(func(*tls.Config) {}), pair.Leaf},
		"TLS 1.2":                             {"127.0.0.1", with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), pair.Leaf},
		"TLS 1.0":                             {"127.0.0.1", with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS10 }), pair.Leaf},
		"IPv6":                                {"::1", with(func(*tls.Config) {}), pair.Leaf},
		"a client certificate, TLS 1.3":       {"127.0.0.1", with(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }), pair.Leaf},
		"a client certificate, TLS 1.2":       {"127.0.0.1", with(func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 }), pair.Leaf},
		"an application protocol, none asked": {"127.0.0.1", with(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), pair.Leaf},
		"expired":                             {"127.0.0.1", with(func(c *tls.Config) { c.Certificates = []tls.Certificate{expired} }), expired.Leaf},
		"by name": {"127.0.0.1", with(func(c *tls.Config) {
			c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if hello.ServerName != "web.shop.svc" {
					return &expired, nil
				}
				return &pair, nil
			}
		}), pair.Leaf},
		"a long chain": {"127.0.0.1", with(func(c *tls.Config) {
			many := pair
			for range 100 {
				many.Certificate = append(many.Certificate, pair.Certificate[0])
			}
			c.Certificates = []tls.Certificate{many}
		}), pair.Leaf},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			at := accept(t, tt.host, handshakes(tt.cfg))
			got := probe(t.Context(), at, "web.shop.svc", long)
			require.Equal(t, answeredTLS, got.kind, "%s", got.why)
			assert.Equal(t, pki.Fingerprint(tt.want), pki.Fingerprint(got.chain[0]))
		})
	}
}

func TestProbeOfWhatIsNoTLSServer(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	pair := newCA(t, 1, time.Now()).issue(t, time.Now(), "web.shop.svc")
	stolen := pair
	stolen.PrivateKey = newCA(t, 1, time.Now()).key
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	tests := map[string]struct {
		at      netip.AddrPort
		timeout time.Duration
		want    shown
	}{
		"plain HTTP":   {netip.MustParseAddrPort(strings.TrimPrefix(plain.URL, "http://")), long, shown{kind: answeredPlaintext}},
		"garbage":      {accept(t, "127.0.0.1", says("\x00\xff\x17garbage garbage garbage")), long, shown{kind: answeredPlaintext}},
		"a greeting":   {accept(t, "127.0.0.1", says("220 mail.example.com ESMTP\r\n")), long, shown{kind: answeredPlaintext}},
		"says nothing": {accept(t, "127.0.0.1", silent), 50 * time.Millisecond, shown{kind: answeredNothing, why: whyTimeout}},
		"half a record": {accept(t, "127.0.0.1", func(conn net.Conn) {
			says("\x16\x03\x03\x40\x00\x02")(conn)
			silent(conn)
		}), 50 * time.Millisecond, shown{kind: answeredNothing, why: whyTimeout}},
		"closes": {accept(t, "127.0.0.1", func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<12)) }), long, shown{kind: answeredNothing, why: whyClosed}},
		"resets": {accept(t, "127.0.0.1", func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}), long, shown{kind: answeredNothing, why: whyReset}},
		"nothing listens": {netip.MustParseAddrPort(closed.Addr().String()), long, shown{kind: answeredNothing, why: whyRefused}},
		"no certificate for the name": {accept(t, "127.0.0.1", handshakes(&tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") },
		})), long, shown{kind: answeredNothing, why: whyAlert}},
		"a certificate without its key": {accept(t, "127.0.0.1", handshakes(&tls.Config{Certificates: []tls.Certificate{stolen}})), long, shown{kind: answeredNothing, why: whyOther}},
		"no route":                      {netip.MustParseAddrPort("[100::1]:443"), 200 * time.Millisecond, shown{kind: answeredNothing}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := probe(t.Context(), tt.at, "web.shop.svc", tt.timeout)
			if name == "no route" { // and no answer is as good
				got.why = ""
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func says(words string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Write([]byte(words))
		_, _ = conn.Read(make([]byte, 1<<12)) // a connection with unread bytes is reset, which would take the words along
	}
}

// A huge certificate is refused by crypto/tls before it takes memory.
func TestProbeOfAHugeCertificate(t *testing.T) {
	pair := newCA(t, 1, time.Now()).issue(t, time.Now(), "web.shop.svc")
	for range 2000 {
		pair.Certificate = append(pair.Certificate, pair.Certificate[0])
	}
	at := accept(t, "127.0.0.1", handshakes(&tls.Config{Certificates: []tls.Certificate{pair}}))
	assert.Equal(t, shown{kind: answeredNothing, why: whyOther}, probe(t.Context(), at, "web.shop.svc", long))
}

// Servers log a handshake that fails, and not one that is done and followed by
// nothing.
func TestProbeLeavesNoTrace(t *testing.T) {
	pair := newCA(t, 1, time.Now()).issue(t, time.Now(), "web.shop.svc")
	var logged bytes.Buffer
	var requests atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.Config.ErrorLog = log.New(&logged, "", 0)
	ended := make(chan struct{}, 1)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			ended <- struct{}{}
		}
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	got := probe(t.Context(), netip.MustParseAddrPort(server.Listener.Addr().String()), "web.shop.svc", long)
	require.Equal(t, answeredTLS, got.kind)
	<-ended
	assert.Empty(t, logged.String())
	assert.Zero(t, requests.Load())
}

// overheard keeps what is read.
type overheard struct {
	net.Conn
	read bytes.Buffer
}

func (c *overheard) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_, _ = c.read.Write(b[:n])
	return n, err
}

func TestProbeSaysGoodbye(t *testing.T) {
	const encrypted = 23 // type of a TLS record whose real type is hidden
	pair := newCA(t, 1, time.Now()).issue(t, time.Now(), "web.shop.svc")
	said := make(chan []byte, 1)
	at := accept(t, "127.0.0.1", func(conn net.Conn) {
		raw := &overheard{Conn: conn}
		_, err := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{pair}}).Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		said <- raw.read.Bytes()
	})
	require.Equal(t, answeredTLS, probe(t.Context(), at, "web.shop.svc", long).kind)
	records := 0
	for rest := <-said; len(rest) >= 5; rest = rest[5+int(binary.BigEndian.Uint16(rest[3:5])):] {
		if rest[0] == encrypted {
			records++
		}
	}
	assert.Equal(t, 2, records, "Finished, and the alert close_notify; a connection that is cut makes some servers log an error")
}

func TestProberDialsOneAfterTheOtherOfEachAndManyOfAll(t *testing.T) {
	const pods, concurrency = 40, 4
	pair := newCA(t, 1, time.Now()).issue(t, time.Now(), "web.shop.svc")
	var open, most atomic.Int32
	gate := make(chan struct{})
	at := accept(t, "127.0.0.1", func(conn net.Conn) {
		now := open.Add(1)
		for {
			before := most.Load()
			if now <= before || most.CompareAndSwap(before, now) {
				break
			}
		}
		<-gate
		open.Add(-1)
		handshakes(&tls.Config{Certificates: []tls.Certificate{pair}})(conn)
	})
	cfg := DefaultConfig()
	cfg.ProbeConcurrency, cfg.ProbeTimeout, cfg.Now = concurrency, long, time.Now
	got := make(chan visitKey, 2*pods)
	p := newProber(cfg, func() pki.Bundle { return pki.Bundle{} }, func(v visitKey, answers []answer) {
		assert.Len(t, answers, 1)
		assert.Equal(t, pki.Fingerprint(pair.Leaf), answers[0].leaf)
		got <- v
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx) }()
	ask := func() {
		for i := range pods {
			p.ask(visit{
				visitKey: visitKey{types.NamespacedName{Namespace: "shop", Name: "web-tls"}, types.UID(string(rune('a' + i)))},
				address:  at.Addr(), ports: []uint16{at.Port()}, name: "web.shop.svc", names: []string{"web.shop.svc"},
			})
		}
	}
	ask()
	require.Eventually(t, func() bool { return open.Load() == concurrency }, long, time.Millisecond)
	ask() // some are being dialled, the others wait
	close(gate)
	seen := map[visitKey]bool{}
	for range pods {
		seen[<-got] = true
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.asked) == 0 && p.queue.Len() == 0
	}, long, time.Millisecond)
	stop()
	require.NoError(t, <-done)
	assert.Len(t, seen, pods)
	assert.Empty(t, got)
	assert.EqualValues(t, concurrency, most.Load())
	assert.InDelta(t, pods, testutil.ToFloat64(p.results.WithLabelValues("tls")), 0)
}
