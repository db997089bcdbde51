package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/mutate/admission"
)

func TestTheServerHasEveryTimeout(t *testing.T) {
	s := newServer("127.0.0.1", 9443, nil, &drain{}, logr.Discard()).http
	for name, timeout := range map[string]time.Duration{
		"header": s.ReadHeaderTimeout, "read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout,
	} {
		assert.Positive(t, timeout, name)
		assert.LessOrEqual(t, timeout, idleTimeout, name)
	}
	assert.Positive(t, s.MaxHeaderBytes)
}

// TestASlowSenderIsCutOff: of a handshake, of headers and of a body. Nothing but the server
// ends these connections.
func TestASlowSenderIsCutOff(t *testing.T) {
	var lines atomic.Int32
	s := newServer("127.0.0.1", 0, nil, &drain{}, funcr.New(func(_, line string) { lines.Add(1); t.Log(line) }, funcr.Options{}))
	// The first bounds the handshake too, which may take long on a busy machine.
	s.http.ReadHeaderTimeout, s.http.ReadTimeout = 3*time.Second, 4*time.Second
	s.Register(admission.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "cut off", http.StatusBadRequest)
		}
	}))
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", certificate.TLS)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, listener) }()

	var slow sync.WaitGroup
	for name, sends := range map[string]string{
		"headers": "POST " + admission.Path + " HTTP/1.1\r\nHost: x\r\n",
		"body":    "POST " + admission.Path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"long":    "POST " + admission.Path + " HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 32<<10),
	} {
		slow.Go(func() {
			conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // any certificate will do
			if !assert.NoError(t, err, name) {
				return
			}
			_, err = io.WriteString(conn, sends)
			assert.NoError(t, err, name)
			answer, _ := io.ReadAll(conn) // returns once the server closes the connection
			assert.NotContains(t, string(answer), "200 OK", name)
			_ = conn.Close()
		})
	}
	raw, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	_, _ = io.ReadAll(raw)
	_ = raw.Close()
	slow.Wait()

	stop()
	assert.NoError(t, <-ended)
	assert.Zero(t, lines.Load(), "strangers write no log")
}
