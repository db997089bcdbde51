package dial

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// A client knows in TLS 1.3 only after its handshake whether it was admitted. What ends without an alert about its
// certificate, or does not end, is no refusal.
func TestJudgements(t *testing.T) {
	const soon = 200 * time.Millisecond // of what never answers
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	config := func(auth tls.ClientAuthType, change ...func(*tls.Config)) *tls.Config {
		c := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: auth, NextProtos: []string{proxy.ProbeProtocol}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	noTickets := func(c *tls.Config) { c.SessionTicketsDisabled = true }
	version12 := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }
	speaks := func(c *tls.Conn) { _, _ = io.WriteString(c, "220 hello\r\n") }
	resets := func(c *tls.Conn) {
		_ = c.NetConn().(*net.TCPConn).SetLinger(0)
		_ = c.NetConn().Close()
	}
	silent := func(c *tls.Conn) { _, _ = io.Copy(io.Discard, c) }
	for name, tt := range map[string]struct {
		config  *tls.Config
		then    func(*tls.Conn)
		timeout time.Duration
		want    probe.Judgement
		cause   probe.Cause
	}{
		"demands one":                        {config(tls.RequireAnyClientCert), silent, process.Soon, probe.Refused, ""},
		"verifies it":                        {config(tls.RequireAndVerifyClientCert), silent, process.Soon, probe.Refused, ""},
		"asks for one":                       {config(tls.RequestClientCert), silent, process.Soon, probe.Admitted, ""},
		"asks for one, TLS 1.2":              {config(tls.RequestClientCert, version12), silent, process.Soon, probe.Admitted, ""},
		"does not ask":                       {config(tls.NoClientCert, noTickets), silent, process.Soon, probe.Admitted, ""},
		"asks, no tickets, speaks first":     {config(tls.RequestClientCert, noTickets), speaks, process.Soon, probe.Admitted, ""},
		"asks, no tickets, is silent":        {config(tls.RequestClientCert, noTickets), silent, soon, "", probe.CauseTimeout},
		"asks, no tickets, closes":           {config(tls.RequestClientCert, noTickets), func(c *tls.Conn) { _ = c.Close() }, process.Soon, "", probe.CauseClosed},
		"asks, no tickets, resets":           {config(tls.RequestClientCert, noTickets), resets, process.Soon, "", probe.CauseReset},
		"demands one, TLS 1.2: ambiguous":    {config(tls.RequireAnyClientCert, version12), silent, process.Soon, "", probe.CauseAlert},
		"another protocol: an alert, but no": {config(tls.RequireAnyClientCert, func(c *tls.Config) { c.NextProtos = []string{"h2"} }), silent, process.Soon, "", probe.CauseAlert},
	} {
		t.Run(name, func(t *testing.T) {
			at := rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
				if c := tls.Server(conn, tt.config); c.HandshakeContext(context.Background()) == nil {
					tt.then(c)
				} else {
					_, _ = io.Copy(io.Discard, conn)
				}
			})
			got := Client{Proxied: true}.By(t.Context(), To(at.String()), "web.shop.svc", starttls.TLS, tt.timeout)
			assert.Equal(t, tt.want, got.Judgement)
			assert.Equal(t, tt.cause, got.Unjudged)
		})
	}
	closed := rotatortest.Accept(t, "127.0.0.1", func(net.Conn) {})
	got, _ := Plaintext(t.Context(), To(closed.String()), process.Soon)
	assert.Empty(t, got, "closed")
	says := func(text string) probe.Judgement {
		at := rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(conn, text)
		})
		got, _ := Plaintext(t.Context(), To(at.String()), process.Soon)
		return got
	}
	assert.Equal(t, probe.Refused, says(proxy.NotTLS))
	assert.Empty(t, says(proxy.NotTLS[:20]), "cut")
	assert.Equal(t, probe.Admitted, says("HTTP/1.1 405 Method Not Allowed\r\n\r\n"))
	require.Equal(t, probe.Admitted, says("220 hello\r\n"))
}
