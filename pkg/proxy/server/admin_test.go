package server

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// Clients can neither fill the log nor create metrics.
func TestLogs(t *testing.T) {
	w := start(t, program(t, echo))
	series := strings.Count(w.text(), "\n")
	for range 300 {
		c := w.dial(strict)
		_, _ = io.WriteString(c, "\x16\x03\x01\x00\x08\x01\x00\x00\x04\xff\xff\xff\xff")
		_, _ = io.ReadAll(c)
		_ = c.Close()
	}
	w.eventually("counted", func() bool { return w.of(strict).counters.handshakeErrors.Load() == 300 })
	lines := strings.Count(w.logs.String(), "TLS handshake failed")
	require.GreaterOrEqual(t, lines, 10)
	require.LessOrEqual(t, lines, 15)
	require.Equal(t, series, strings.Count(w.text(), "\n"))
	require.Contains(t, w.text(), `servingcert_proxy_connections_failed_total{port="sc-tls-8080",reason="handshake"} 300`)

	now := time.Now()
	g := startGuarded(t, program(t, echo), onlyCart, func(c *Config) { c.Clock = func() time.Time { return now } })
	for _, c := range []*tls.Certificate{nil, g.ca.issue(t, other)} {
		for range 50 {
			_, _ = io.ReadAll(g.as(c, strict))
		}
	}
	g.refused(strict, proxy.NoCertificate, 50)
	g.refused(strict, proxy.NotListed, 50)
	require.Equal(t, 20, strings.Count(g.logs.String(), "refused a client"), "ten of each message")
}

func (w *world) text() string { return w.get("/metrics") }

func (w *world) get(path string) string {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	require.Equal(w.t, http.StatusOK, recorder.Code, path)
	return recorder.Body.String()
}

func TestAPlaintextClientIsSeenUntilItsConnectionEnds(t *testing.T) {
	w := start(t, program(t, echo))
	last := func() time.Time { return w.list()[0].Last }
	c := w.dial(both)
	send(t, c, "GET / HTTP/1.1\r\n\r\n")
	open := last()
	w.eventually("seen later, as it is open", func() bool { return last().After(open) })
	require.NoError(t, c.Close())
	w.eventually("ended", func() bool { return w.conns.len() == 0 })
	require.Equal(t, last(), last(), "the time of its end, and not now")
}

// A client that sends nothing may be one that breaks without plaintext. It is listed while that is unclear, and if a
// client of TLS would have begun.
func TestASilentConnectionIsListed(t *testing.T) {
	w := start(t, program(t, echo), soonSilent, func(c *Config) { c.Limits.Handshake = 2 * time.Second })
	unclear := func() (addresses int, connections uint64) {
		for _, c := range w.clientList().Unclear {
			require.Equal(t, both, c.Port)
			require.Equal(t, proxy.KindUnknown, c.Kind)
			require.Equal(t, "127.0.0.1", c.Address.String())
			require.GreaterOrEqual(t, c.Last.Sub(c.First), 2*time.Second)
			addresses, connections = addresses+1, connections+c.Connections
		}
		return addresses, connections
	}
	are := func(connections uint64) func() bool {
		return func() bool {
			_, n := unclear()
			return n == connections
		}
	}
	c, late, gone := w.dial(both), w.dial(both), w.dial(both)
	w.dial(strict) // it is closed
	w.eventually("listed", are(3))
	addresses, _ := unclear()
	require.Equal(t, 1, addresses)
	require.Empty(t, w.list(), "it is no plaintext yet")

	require.NoError(t, gone.Close())
	w.eventually("ended", are(2))
	send(t, c, "hello")
	require.Equal(t, proxy.KindOther, w.list()[0].Kind)
	require.True(t, are(1)(), "the kind of the other is known")
	require.NoError(t, tls.Client(late, clientConfig()).Handshake())
	require.Empty(t, w.clientList().Unclear)
	require.Len(t, w.list(), 1, "TLS is no plaintext, however late")
}

func TestHandler(t *testing.T) {
	w := start(t, program(t, echo))
	require.Equal(t, "ok\n", w.get("/readyz"))
	send(t, w.tls(strict), "ping")
	send(t, w.dial(both), "GET / HTTP/1.1\r\n\r\n")
	var list proxy.ClientList
	require.NoError(t, json.Unmarshal([]byte(w.get("/clients")), &list))
	require.Len(t, list.Clients, 1)
	require.Equal(t, "127.0.0.1", list.Clients[0].Address.String())
	require.Equal(t, proxy.KindHTTP, list.Clients[0].Kind)
	require.EqualValues(t, 1, list.Clients[0].Connections)
	require.WithinDuration(t, time.Now(), list.Clients[0].Last, time.Minute)
	require.NotContains(t, w.text(), "127.0.0.1")
	checkExposition(t, w.text())
	w.stop()
	recorder := httptest.NewRecorder()
	w.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)
}
