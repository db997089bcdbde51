package ca

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// left is what the rotator says of the pods that may not hold the root of the newest generation.
func left(s *script, pods int) api.OldClients {
	newest := s.state().Newest()
	of := api.OldClientsOf{Generation: newest.Number, Root: pki.Fingerprint(newest.Root), Since: start, Pods: pods}
	if pods > 0 {
		of.Workloads, of.First = 1, []string{"shop/Deployment web"}
	}
	return api.OldClients{of}
}

// TestRetirementWaitsForClients: a root that would go with its last certificate stays as long as
// pods may hold nothing newer, if the operator asks for that, and not longer than it is valid.
func TestRetirementWaitsForClients(t *testing.T) {
	s := newScript(t)
	first := s.state().signing()
	s.Constraints = wider // which the first generation does not permit, so that it is not kept
	s.take(StepPrepare)
	s.promote()
	s.Now = first.UsedUntil.Add(clockMargin)
	s.take(StepRaise)
	s.Now = s.Now.Add(time.Second)
	require.Equal(t, StepRetire, Decide(s.Situation).Step.Kind, "nobody is waited for unless somebody asks for it")

	s.WaitForClients = true
	d := s.take("")
	assert.Contains(t, d.Waiting, "the root of generation 1")
	assert.Contains(t, d.Waiting, "is the rotator running?")
	assert.Equal(t, pollStopped, d.RequeueAfter)
	s.Clients = left(s, 3)
	assert.Contains(t, s.take("").Waiting, "3 pods of 1 workloads may not hold the root of generation 2")
	assert.Contains(t, s.take("").Waiting, "shop/Deployment web")
	assert.Len(t, s.state().Bundle(s.Now).Certificates(), 2)
	s.Clients[0].Root = pki.Fingerprint(first.Root)
	assert.Contains(t, s.take("").Waiting, "does not say yet", "a count of another root says nothing")

	s.Clients = left(s, 3)
	expired, _ := tidied(s.state(), first.Root.NotAfter.Add(time.Second), s.holdsRetirement)
	assert.Len(t, expired.Generations, 1, "what has expired helps nobody")

	s.Clients = left(s, 0)
	s.take(StepRetire)
	assert.Len(t, s.state().Bundle(s.Now).Certificates(), 1)
	assert.Empty(t, s.take("").Waiting)
}

// TestPromotionWithoutCrossWaitsForClients: clients with nothing but an older root reject what such
// a generation signs, so that it waits for them, for a time.
func TestPromotionWithoutCrossWaitsForClients(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *script)
		step   StepKind
	}{
		"clients are left":            {func(*script) {}, ""},
		"they were not counted":       {func(s *script) { s.Clients = nil }, ""},
		"none is left":                {func(s *script) { s.Clients = left(s, 0) }, StepPromote},
		"nobody waits for them":       {func(s *script) { s.WaitForClients = false }, StepPromote},
		"a person lets it sign":       {func(s *script) { s.PromoteDespite = 2 }, StepPromote},
		"it has waited long enough":   {func(s *script) { s.Now = s.state().Newest().TrustedAt.Add(s.RefusalGrace) }, StepPromote},
		"it has almost waited enough": {func(s *script) { s.Now = s.state().Newest().TrustedAt.Add(s.RefusalGrace - time.Second) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			remote := foreignCA(t, "Remote Root", nil, func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true })
			c := NewCandidate(OriginRemote, []*x509.Certificate{remote.cert}, remote.cert, nil)
			s.HasRemote, s.Remote, s.WaitForClients, s.RefusalGrace = true, &c, true, time.Hour
			s.take(StepPrepare)
			state := s.state()
			state.Generations[1].Cross = nil
			s.Secret = secretData(t, state)
			s.trusted()
			s.take(StepTrusted)
			s.Now = s.Now.Add(s.Soak)
			s.Clients = left(s, 3)
			tc.change(s)
			d := Decide(s.Situation)
			assert.Equal(t, tc.step, d.Step.Kind)
			if tc.step == "" {
				assert.Contains(t, d.Waiting, "without a cross-certificate it would leave out clients")
			}
		})
	}
}
