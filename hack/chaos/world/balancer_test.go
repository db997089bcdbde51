package world

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
)

// replica says its name to whoever connects, and is ready while told so.
func replica(t *testing.T, name string, ready *atomic.Bool) backend {
	t.Helper()
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(health.Close)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, name)
			_ = conn.Close()
		}
	}()
	return backend{l.Addr().String(), func(ctx context.Context) error { return controlplane.GetOK(ctx, http.DefaultClient, health.URL) }}
}

// TestBalancer: connections go to each replica that was ready when it last looked.
func TestBalancer(t *testing.T) {
	var first, second atomic.Bool
	first.Store(true)
	second.Store(true)
	address, err := process.FreeAddress()
	require.NoError(t, err)
	b, err := newBalancer(t.Context(), address, []backend{replica(t, "a", &first), replica(t, "b", &second)})
	require.NoError(t, err)
	t.Cleanup(b.close)
	answers := func() string {
		var out string
		for range 4 {
			conn, err := net.Dial("tcp4", address)
			require.NoError(t, err)
			said, _ := io.ReadAll(conn) // a connection that is cut says nothing
			out += string(said)
			_ = conn.Close()
		}
		return out
	}
	assert.Equal(t, 2, strings.Count(answers(), "a"))
	first.Store(false)
	b.look(context.Background())
	assert.Equal(t, "bbbb", answers())
	second.Store(false)
	b.look(context.Background())
	assert.Empty(t, answers())
}
