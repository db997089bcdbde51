package dial

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// long is a timeout that never expires.
const long = process.Soon

func TestDialShowsTheLeaf(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	with := func(change func(*tls.Config)) *tls.Config {
		cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10}
		change(cfg)
		return cfg
	}
	expired := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now().Add(-48*time.Hour), "web.shop.svc")
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
			at := rotatortest.Accept(t, tt.host, rotatortest.Handshakes(tt.cfg))
			got := Dial(t.Context(), at.String(), "web.shop.svc", "", long)
			require.Equal(t, probe.TLS, got.Kind, "%s", got.Cause)
			assert.Equal(t, pki.Fingerprint(tt.want), pki.Fingerprint(got.Chain[0]))
		})
	}
}

// TestDialReportsTheHandshake: a server with one group, post-quantum or not, is reached, and the
// parameters are reported.
func TestDialReportsTheHandshake(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	for _, tt := range []struct {
		change func(*tls.Config)
		want   probe.HandshakeNames
	}{
		{func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768} }, probe.HandshakeNames{Version: "TLS 1.3", Group: "X25519MLKEM768"}},
		{func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.SecP256r1MLKEM768} }, probe.HandshakeNames{Version: "TLS 1.3", Group: "SecP256r1MLKEM768"}},
		{func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.SecP384r1MLKEM1024} }, probe.HandshakeNames{Version: "TLS 1.3", Group: "SecP384r1MLKEM1024"}},
		{func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP521} }, probe.HandshakeNames{Version: "TLS 1.3", Group: "CurveP521"}},
		{func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }, probe.HandshakeNames{Version: "TLS 1.3", Group: "X25519MLKEM768"}},
		{func(c *tls.Config) {
			c.ClientAuth, c.MaxVersion, c.CurvePreferences = tls.RequireAnyClientCert, tls.VersionTLS12, []tls.CurveID{tls.CurveP256}
		}, probe.HandshakeNames{Version: "TLS 1.2", Group: "CurveP256"}},
		{func(c *tls.Config) {
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			require.NoError(t, err)
			template := &x509.Certificate{SerialNumber: big.NewInt(1)}
			der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			require.NoError(t, err)
			c.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}
		}, probe.HandshakeNames{Version: "TLS 1.2", Group: "none", Signature: "SHA256-RSA"}},
	} {
		cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10}
		tt.change(cfg)
		at := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(cfg))
		got := Dial(t.Context(), at.String(), "web.shop.svc", "", long)
		require.Equal(t, probe.TLS, got.Kind, "%+v: %v", tt.want, got.Err)
		tt.want.Signature = cmp.Or(tt.want.Signature, "ECDSA-SHA256")
		assert.Equal(t, tt.want, got.Handshake.Names())
	}
}

// begins sends the first answer of a protocol, and then calls next.
func begins(asked int, answer string, next func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, asked))
		_, _ = io.WriteString(conn, answer)
		next(conn)
	}
}

func TestDialInAProtocol(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	serves := rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS10})
	closes := func(net.Conn) {}
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	tests := map[string]struct {
		protocol starttls.Protocol
		timeout  time.Duration
		answer   func(net.Conn)
		want     probe.Outcome
	}{
		"PostgreSQL":                          {starttls.Postgres, long, begins(8, "S", serves), probe.Outcome{Kind: probe.TLS}},
		"PostgreSQL without TLS":              {starttls.Postgres, long, begins(8, "N", silent), probe.Outcome{Kind: probe.Plaintext, Cause: probe.CauseDeclined}},
		"TLS from the first byte, asked":      {starttls.Postgres, long, serves, probe.Outcome{Kind: probe.TLS}},
		"garbage":                             {starttls.Postgres, long, begins(8, "garbage", closes), probe.Outcome{Kind: probe.NotVerified, Cause: probe.CauseProtocol}},
		"endless lines":                       {starttls.SMTP, long, begins(0, strings.Repeat("220-\r\n", 1<<20), closes), probe.Outcome{Kind: probe.NotVerified, Cause: probe.CauseProtocol}},
		"it closes":                           {starttls.Postgres, long, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<12)) }, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseClosed}},
		"no answer":                           {starttls.Postgres, 100 * time.Millisecond, silent, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseTimeout}},
		"it should speak first, and closes":   {starttls.SMTP, long, closes, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseClosed}},
		"it should speak first, and does not": {starttls.SMTP, 100 * time.Millisecond, silent, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseTimeout}},
		"half a line, and no more":            {starttls.SMTP, 100 * time.Millisecond, begins(0, "220", silent), probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseTimeout}},
		"TLS that does not begin":             {starttls.Postgres, long, begins(8, "S", begins(5, "garbage", silent)), probe.Outcome{Kind: probe.Plaintext}},
		"a byte now and then": {starttls.SMTP, 200 * time.Millisecond, func(conn net.Conn) {
			for {
				if _, err := io.WriteString(conn, "2"); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseTimeout}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			at := rotatortest.Accept(t, "127.0.0.1", tt.answer)
			begun := time.Now()
			got := Dial(t.Context(), at.String(), "web.shop.svc", tt.protocol, tt.timeout)
			assert.Less(t, time.Since(begun), tt.timeout+process.Soon)
			assert.Equal(t, tt.want, probe.Outcome{Kind: got.Kind, Cause: got.Cause}, "%v", got.Err)
			if tt.want.Kind == probe.TLS {
				assert.Equal(t, pki.Fingerprint(pair.Leaf), pki.Fingerprint(got.Chain[0]))
			}
		})
	}
}

// TestDialAwaitsAGreetingForHalfOfTheTime: in the other half, a server that should speak first is asked for TLS.
func TestDialAwaitsAGreetingForHalfOfTheTime(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	serves := rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}})
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		got := Client{}.By(t.Context(), func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				serves(theirs)
				_ = theirs.Close()
			}()
			return ours, nil
		}, "web.shop.svc", starttls.SMTP, 10*time.Second)
		require.Equal(t, probe.TLS, got.Kind, "%v", got.Err)
		assert.Equal(t, pki.Fingerprint(pair.Leaf), pki.Fingerprint(got.Chain[0]))
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

func TestDialOfServerWithoutTLS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	stolen := pair
	stolen.PrivateKey = rotatortest.NewCA(t, 1, time.Now()).Key
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	tests := map[string]struct {
		at      netip.AddrPort
		timeout time.Duration
		want    probe.Outcome
	}{
		"plain HTTP": {netip.MustParseAddrPort(strings.TrimPrefix(plain.URL, "http://")), long, probe.Outcome{Kind: probe.Plaintext}},
		"garbage":    {rotatortest.Accept(t, "127.0.0.1", says("\x00\xff\x17garbage garbage garbage")), long, probe.Outcome{Kind: probe.Plaintext}},
		"a greeting": {rotatortest.Accept(t, "127.0.0.1", says("220 mail.example.com ESMTP\r\n")), long, probe.Outcome{Kind: probe.Plaintext}},
		"no answer":  {rotatortest.Accept(t, "127.0.0.1", silent), 50 * time.Millisecond, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseTimeout}},
		"half a record": {rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
			says("\x16\x03\x03\x40\x00\x02")(conn)
			silent(conn)
		}), 50 * time.Millisecond, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseTimeout}},
		"closes": {rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<12)) }), long, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseClosed}},
		"resets": {rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}), long, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseReset}},
		"nothing listens": {netip.MustParseAddrPort(closed.Addr().String()), long, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseRefused}},
		"no certificate for the name": {rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") },
		})), long, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseAlert}},
		"a certificate without its key": {rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{stolen}})), long, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseOther}},
		"no route":                      {netip.MustParseAddrPort("[100::1]:443"), 200 * time.Millisecond, probe.Outcome{Kind: probe.NoAnswer}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Dial(t.Context(), tt.at.String(), "web.shop.svc", "", tt.timeout)
			if name == "no route" { // and no answer is as good
				got.Cause = ""
			}
			assert.Error(t, got.Err)
			got.Err = nil
			assert.Equal(t, tt.want, got)
		})
	}
}

func says(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Write([]byte(text))
		_, _ = conn.Read(make([]byte, 1<<12)) // a connection with unread bytes is reset, which would discard the text
	}
}

// crypto/tls rejects a huge certificate before it allocates memory.
func TestDialOfAHugeCertificate(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	for range 2000 {
		pair.Certificate = append(pair.Certificate, pair.Certificate[0])
	}
	at := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}}))
	got := Dial(t.Context(), at.String(), "web.shop.svc", "", long)
	assert.Error(t, got.Err)
	assert.Equal(t, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseOther, Err: got.Err}, got)
}

// A server with the largest possible Secret can be dialled.
func TestDialOfTheLargestChain(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	pem := len(pki.EncodeCertificates(pair.Leaf))
	for range pki.MaxCertificates/pem - 1 {
		pair.Certificate = append(pair.Certificate, pair.Certificate[0])
	}
	at := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}}))
	got := Dial(t.Context(), at.String(), "web.shop.svc", "", long)
	require.Equal(t, probe.TLS, got.Kind, "%v", got.Err)
	assert.Len(t, got.Chain, pki.MaxCertificates/pem)
}

// The cost of an RSA key grows with the third power of its length.
func TestDialOfAHugeKey(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, time.Now())
	pair := ca.Issue(t, time.Now(), "web.shop.svc")
	n := new(big.Int).Lsh(big.NewInt(1), 100_000)
	der, err := x509.CreateCertificate(rand.Reader, pair.Leaf, ca.Root, &rsa.PublicKey{N: n.Add(n, big.NewInt(1)), E: 65537}, ca.Key)
	require.NoError(t, err)
	pair.Certificate, pair.Leaf = [][]byte{der}, nil
	at := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}}))
	got := Dial(t.Context(), at.String(), "web.shop.svc", "", long)
	require.ErrorContains(t, got.Err, "RSA key larger than 8192 bits")
	assert.Equal(t, probe.CauseOther, got.Cause)
}

func TestDialReadsAtMostTheLimit(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Write(make([]byte, 100))
		_ = theirs.Close()
	}()
	got, err := io.ReadAll(&bounded{ours, 60})
	assert.Len(t, got, 60)
	require.ErrorIs(t, err, errTooLong)
	assert.Equal(t, probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseOther, Err: err}, probe.HandshakeOutcome(nil, err))
	require.NoError(t, ours.Close())
}

// Servers log a failed handshake, but not a completed one without data.
func TestDialLeavesNoTrace(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
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
	got := Dial(t.Context(), netip.MustParseAddrPort(server.Listener.Addr().String()).String(), "web.shop.svc", "", long)
	require.Equal(t, probe.TLS, got.Kind)
	<-ended
	assert.Empty(t, logged.String())
	assert.Zero(t, requests.Load())
}

// overheard stores what is read.
type overheard struct {
	net.Conn
	read bytes.Buffer
}

func (c *overheard) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_, _ = c.read.Write(b[:n])
	return n, err
}

func TestDialSendsCloseNotify(t *testing.T) {
	const encrypted = 23 // type of a TLS record whose real type is hidden
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	said := make(chan []byte, 1)
	at := rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
		raw := &overheard{Conn: conn}
		_, err := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{pair}}).Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		said <- raw.read.Bytes()
	})
	require.Equal(t, probe.TLS, Dial(t.Context(), at.String(), "web.shop.svc", "", long).Kind)
	records := 0
	for rest := <-said; len(rest) >= 5; rest = rest[5+int(binary.BigEndian.Uint16(rest[3:5])):] {
		if rest[0] == encrypted {
			records++
		}
	}
	assert.Equal(t, 2, records, "Finished, and the alert close_notify; a connection that is cut makes some servers log an error")
}

// BenchmarkDial is one dial, including the server's part.
func BenchmarkDial(b *testing.B) {
	pair := rotatortest.NewCA(b, 1, time.Now()).Issue(b, time.Now(), "web.shop.svc")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func(conn net.Conn) {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}(conn)
		}
	}()
	at := l.Addr().String()
	for b.Loop() {
		require.Equal(b, probe.TLS, Dial(b.Context(), at, "web.shop.svc", "", long).Kind)
	}
	require.NoError(b, l.Close())
	<-done
}
