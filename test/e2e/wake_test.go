//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// wokenRotations is the number of renewals of the certificate of scene reload, with its two pods, to measure
// how soon a rotation is served.
const wokenRotations = 10

// measureWoken renews the certificate of a server repeatedly, and notes how long each took from its Secret
// to each pod. Without waking, the median is 37 s and the maximum 92 s; scene unwoken measures both.
func (c *cluster) measureWoken(t *testing.T, s *scene, srv server) {
	before, err := c.processesOf(t.Context(), srv)
	require.NoError(t, err)
	wakes, err := c.wakes(t.Context())
	require.NoError(t, err)
	known := len(c.writes.of(srv.namespace, srv.secret))
	for range wokenRotations {
		_, err := c.run(t.Context(), c.tools.plugin, "renew", "-n", srv.namespace, srv.service)
		require.NoError(t, err)
		c.takesUp(t, srv, before)
	}
	report, err := c.report(t.Context(), attentive)
	require.NoError(t, err)
	took, err := c.servedAfter(t.Context(), report, srv, c.writes.of(srv.namespace, srv.secret)[known:])
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(took), 2*wokenRotations)
	s.note("woken, from the write of a Secret to the pod that serves it, " + spread(took))
	after, err := c.wakes(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, after-wakes, float64(len(took)), "each pod is woken for each rotation")
}

// servedAfter returns how long each certificate took from its Secret to each pod of the server.
func (c *cluster) servedAfter(ctx context.Context, report handshake.Report, srv server, issued []written) ([]time.Duration, error) {
	pods, err := c.podsOf(ctx, srv)
	var took []time.Duration
	for i := range pods {
		account, _ := report.Of(srv.atPod(&pods[i]))
		for _, w := range issued {
			if first, ok := account.FirstServed(w.leaf); ok {
				took = append(took, first.Sub(w.at))
			}
		}
	}
	return took, err
}

// spread describes durations, at least one, for the table at the end.
func spread(took []time.Duration) string {
	sorted := slices.Sorted(slices.Values(took))
	return fmt.Sprintf("%d times: p50 %s, max %s", len(sorted), seconds(sorted[len(sorted)/2]), seconds(sorted[len(sorted)-1]))
}

// wakes returns how often the rotator has written the annotation that wakes a kubelet.
func (c *cluster) wakes(ctx context.Context) (float64, error) {
	return c.metric(ctx, "rotator", "servingcert_wakes_total", map[string]string{"result": "written"})
}
