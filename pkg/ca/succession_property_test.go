package ca

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Invariant 6: over any schedule of steps, deaths between any two writes, stale
// bundles, servers that reload late and clocks that differ, every client verifies
// every server, and so does one that holds only the oldest root.
func TestInvariant6TrustNeverGaps(t *testing.T) {
	most, promotions, worlds := 0, 0, 0
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, outer)
		for range 120 {
			w.act(rapid.SampledFrom([]string{"ca", "ca", "ca", "ca", "rotator", "rotator", "issue", "issue", "minute", "hour", "days", "force", "flags"}).Draw(t, "act"))
			w.holds()
		}
		// Whatever happened, a generation that waits comes to sign once everything
		// runs.
		for i := 0; i < 200 && w.waits(); i++ {
			w.ca()
			w.rotator()
			w.pass(time.Minute)
			w.holds()
		}
		require.False(t, w.waits(), "the succession is stuck: %v", w.status)
		most, promotions, worlds = max(most, w.most), promotions+w.promotion, worlds+1
	})
	t.Logf("%d worlds, %d promotions, at most %d generations in one", worlds, promotions, most)
	assert.GreaterOrEqual(t, most, 5, "too few successions to show anything")
}

func (w *world) waits() bool {
	s, err := ParseState(w.secret)
	require.NoError(w.T, err)
	return s.waiting()
}

func (w *world) act(what string) {
	switch what {
	case "ca":
		w.ca()
	case "rotator":
		w.rotator()
	case "issue":
		w.issue()
	case "minute":
		w.pass(time.Duration(rapid.IntRange(1, 120).Draw(w.T, "seconds")) * time.Second)
	case "hour":
		w.pass(time.Duration(rapid.IntRange(1, 120).Draw(w.T, "minutes")) * time.Minute)
	case "days":
		w.pass(time.Duration(rapid.IntRange(1, 200).Draw(w.T, "hours")) * time.Hour)
	case "force":
		w.reasons++
		w.request = Request{Mode: api.RotateOverlap, Reason: time.Duration(w.reasons).String()}
	case "flags":
		domain := rapid.SampledFrom([]string{"cluster.local", "example.org"}).Draw(w.T, "domain")
		permitted := []string{"svc", domain}
		if rapid.Bool().Draw(w.T, "suffix") {
			permitted = append(permitted, "example.com")
		}
		w.config.Domain, w.config.Wanted = domain, pki.Constraints{PermittedDNS: permitted}.Normalize()
	}
}
