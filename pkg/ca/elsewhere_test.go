package ca

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A process that has just begun to lead has not seen the certificates yet. That
// is no count of none, all of which are replaced.
func TestCertificatesThatAreNotCountedYet(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	s.promote()
	s.Now = s.Now.Add(s.Reissue)
	require.Equal(t, api.PhaseRetire, s.phase())

	h := newHarness(t)
	var seen map[string]int
	h.cfg.Leaves = func() map[string]int { return seen }
	f := found{Observed: s.Observed}
	d := Decide(f.Observed)
	data := h.statusData(f, d, nil)
	assert.NotContains(t, data, api.CALeaves)
	assert.NotContains(t, data, api.CAReplaced)
	h.last = data
	assert.Equal(t, countEvery, h.wait(f, d), "it is counted soon, though nothing else is awaited")

	seen = map[string]int{pki.Fingerprint(d.State.signing().Root): 3, pki.Fingerprint(d.State.Generations[0].Root): 1}
	data = h.statusData(f, d, nil)
	assert.Equal(t, "4", data[api.CALeaves])
	assert.Equal(t, "3", data[api.CAReplaced])

	seen = map[string]int{} // seen, and there is none
	f.Now = f.Now.Add(countEvery)
	data = h.statusData(f, d, nil)
	assert.Equal(t, "0", data[api.CALeaves])
	h.last = data
	assert.Greater(t, h.wait(f, d), time.Minute)
}
