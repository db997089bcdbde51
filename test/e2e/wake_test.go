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
)

// wokenRotations is how often the certificate of the two pods of scene reload is
// renewed to measure how soon a rotation is served.
const wokenRotations = 10

// measureWoken renews the certificate of a server time and again, and keeps how long
// each took from its Secret to each pod. The kubelet alone takes 37 s in the middle of
// all runs that were measured, and up to 92 s.
func (c *cluster) measureWoken(t *testing.T, s *scene, srv server) {
	pods, err := c.podsOf(t.Context(), srv)
	require.NoError(t, err)
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
	var took []time.Duration
	for _, w := range c.writes.of(srv.namespace, srv.secret)[known:] {
		for i := range pods {
			account, _ := report.Of(srv.atPod(&pods[i]))
			if first, ok := account.FirstServed(w.leaf); ok {
				took = append(took, first.Sub(w.at))
			}
		}
	}
	slices.Sort(took)
	require.GreaterOrEqual(t, len(took), 2*wokenRotations)
	p50, longest := took[len(took)/2], took[len(took)-1]
	s.note(fmt.Sprintf("woken, from the write of a Secret to the pod that serves it, %d times: p50 %s, max %s", len(took), seconds(p50), seconds(longest)))
	after, err := c.wakes(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, after-wakes, float64(len(took)), "each pod is woken for each rotation")
}

// wakes returns how often the rotator has written the annotation that wakes a kubelet.
func (c *cluster) wakes(ctx context.Context) (float64, error) {
	metrics, err := c.scrape(ctx, "rotator", "servingcert_wakes_total")
	sum := 0.0
	for _, m := range metrics {
		for _, l := range m.GetLabel() {
			if l.GetName() == "result" && l.GetValue() == "written" {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum, err
}
