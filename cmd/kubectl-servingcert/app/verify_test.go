package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// TestVerifyWaitsForTheReportAboutANewCertificate: until the rotator has dialled the pods, nothing has been seen, although they
// may serve it already.
func TestVerifyWaitsForTheReportAboutANewCertificate(t *testing.T) {
	served := &status.Serving{Status: "True", Reason: api.ServingCurrent}
	outdated := &status.Serving{Status: "True", Reason: api.ServingCurrent, Outdated: true}
	propagating := &status.Serving{Status: "False", Reason: api.ServingPropagating}
	stale := &status.Serving{Status: "False", Reason: api.ServingStale}
	for name, tt := range map[string]struct {
		reports   []*status.Serving // one read each; the last one stays
		noRotator string
		limit     time.Duration
		reads     int
	}{
		"served":                 {[]*status.Serving{served}, "", process.Soon, 1},
		"served after a while":   {[]*status.Serving{outdated, propagating, served}, "", process.Soon, 3},
		"not served":             {[]*status.Serving{outdated, stale}, "", process.Soon, 2},
		"nothing was reported":   {[]*status.Serving{nil}, "", process.Soon, 1},
		"nobody will report":     {[]*status.Serving{outdated}, "none", process.Soon, 1},
		"nothing changes":        {[]*status.Serving{propagating}, "", 20 * time.Millisecond, 0},
		"tests that do not wait": {[]*status.Serving{propagating}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, reads := verifyFlags{plugin: &plugin{timing: Timing{Verify: tt.limit}}}, 0
			seen, err := f.settled(t.Context(), func() (status.VerifySituation, error) {
				reads++
				return status.VerifySituation{Service: status.Service{Serving: tt.reports[min(reads, len(tt.reports))-1]}, NoRotator: tt.noRotator}, nil
			})
			assert.NoError(t, err)
			assert.Equal(t, tt.reports[len(tt.reports)-1], seen.Service.Serving)
			assert.True(t, tt.reads == 0 || reads == tt.reads, "%d reads", reads)
		})
	}
	f := verifyFlags{plugin: &plugin{timing: Timing{Verify: process.Soon}}}
	_, err := f.settled(t.Context(), func() (status.VerifySituation, error) { return status.VerifySituation{}, errors.New("no") })
	assert.EqualError(t, err, "no")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.settled(ctx, func() (status.VerifySituation, error) {
		return status.VerifySituation{Service: status.Service{Serving: outdated}}, nil
	})
	assert.NoError(t, err)
}
