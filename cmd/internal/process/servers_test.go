package process

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestChecks tests liveness and readiness, all checks together and each by its name, from the start, with
// an unreachable API server, on a replica that does not lead.
func TestChecks(t *testing.T) {
	c := NewCommon(true)
	var err error
	c.HealthAddr, err = harness.FreeAddress()
	require.NoError(t, err)
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, c.ManagerOptions(nil, "lease"))
	require.NoError(t, err)
	broken := errors.New("it is broken")
	var state error
	require.NoError(t, c.AddChecks(mgr, "ca", func(*http.Request) error { return state }))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })

	get := func(page string) (int, string) {
		var status int
		var body []byte
		harness.Eventually(t, func() error {
			response, err := http.Get("http://" + c.HealthAddr + page)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			assert.True(t, response.Close, "no connection is kept")
			status = response.StatusCode
			body, err = io.ReadAll(response.Body)
			return err
		})
		return status, string(body)
	}
	for _, test := range []struct {
		page   string
		state  error
		status int
		body   string
	}{
		{"/healthz", nil, 200, "ok"},
		{"/healthz", broken, 200, "ok"},
		{"/healthz/ping", nil, 200, "ok"},
		{"/healthz?verbose", nil, 200, "[+]ping ok\nhealthz check passed\n"},
		{"/readyz", nil, 200, "ok"},
		{"/readyz/", nil, 200, "ok"},
		{"/readyz?verbose", nil, 200, "[+]ca ok\nhealthz check passed\n"},
		{"/readyz/ca", nil, 200, "ok"},
		{"/readyz", broken, 500, "[-]ca failed: reason withheld\nhealthz check failed\n"},
		{"/readyz?exclude=ca", broken, 200, "ok"},
		{"/readyz/ca", broken, 500, "internal server error: it is broken\n"},
		{"/readyz/other", nil, 404, "404 page not found\n"},
		{"/", nil, 404, "404 page not found\n"},
	} {
		state = test.state
		status, body := get(test.page)
		assert.Equal(t, test.status, status, test.page)
		assert.Equal(t, test.body, body, test.page)
	}
}

func TestChecksAtAnAddressInUse(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	c := NewCommon(true)
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, c.ManagerOptions(nil, "lease"))
	require.NoError(t, err)
	c.HealthAddr = listener.Addr().String()
	assert.ErrorContains(t, c.AddChecks(mgr, "ca", nil), "serve health: listen tcp "+c.HealthAddr)
	c.HealthAddr = "0"
	assert.NoError(t, c.AddChecks(mgr, "ca", nil))
}
