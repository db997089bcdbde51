package ca

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestRequeueAfter(t *testing.T) {
	stable, waiting := first(t), generations(t, 1, 2, 1)
	problem := func(reason string) api.CAMessage { return api.CAMessage{Reason: reason, Message: "x"} }
	cases := []struct {
		name string
		d    Decision
		want time.Duration
	}{
		{"nothing to come", Decision{State: &stable}, pollStable},
		{"far away", Decision{State: &stable, Next: start.Add(day)}, pollStable},
		{"soon", Decision{State: &stable, Next: start.Add(time.Minute)}, time.Minute},
		{"past", Decision{State: &stable, Next: start.Add(-time.Minute)}, pollAtOnce},
		{"stopped", Decision{Problem: problem(api.CALost)}, pollStopped},
		{"stopped, soon over", Decision{State: &stable, Problem: problem(api.CANotYetValid), Next: start.Add(time.Second)}, time.Second},
		{"a succession is followed", Decision{State: &waiting, Next: start.Add(day)}, pollMoving},
		{"after a step", Decision{State: &stable, Step: Step{Kind: StepRaise}, Next: start.Add(day)}, pollAtOnce},
	}
	for _, c := range cases {
		assert.Equal(t, c.want, requeueAfter(situation(nil), c.d), c.name)
	}

	alone := situation(nil)
	alone.LeavesCounted = true
	assert.Equal(t, pollStable, requeueAfter(alone, Decision{State: &stable}), "where one generation has signed everything there is nothing to count")

	all, replaced := 3, 2
	status := &api.CAStatus{Certificates: &all, Replaced: &replaced}
	succeeded := generations(t, 1, 2, 2)
	over := succeeded.reissueWindow(DefaultReissue).Until
	at := func(now time.Time) time.Duration {
		s := situation(nil)
		s.Now = now
		return requeueAfter(s, Decision{State: &succeeded, Status: status})
	}
	assert.Equal(t, pollLeaves, at(over.Add(time.Second)), "the last are being replaced")
	assert.Equal(t, pollStopped, at(over.Add(pollStopped)), "one that cannot be needs no haste")
}

// A process that has just begun to lead has not counted the certificates yet. That must
// not be taken for zero certificates, all of which are replaced.
func TestCertificatesThatAreNotCountedYet(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	s.promote()
	s.Now = s.Now.Add(s.Reissue)
	require.Equal(t, api.PhaseRetire, s.phase())

	s.LeavesCounted = true
	d := Decide(s.Situation)
	data := d.Status.Data()
	assert.NotContains(t, data, api.CALeaves)
	assert.NotContains(t, data, api.CAReplaced)
	assert.Equal(t, pollLeaves, d.RequeueAfter, "it is counted soon, though nothing else is awaited")

	s.Leaves = map[string]int{pki.Fingerprint(d.State.signing().Root): 3, pki.Fingerprint(d.State.Generations[0].Root): 1}
	data = Decide(s.Situation).Status.Data()
	assert.Equal(t, "4", data[api.CALeaves])
	assert.Equal(t, "3", data[api.CAReplaced])

	s.Leaves = map[string]int{} // seen, and there is none
	d = Decide(s.Situation)
	assert.Equal(t, "0", d.Status.Data()[api.CALeaves])
	assert.Greater(t, d.RequeueAfter, time.Minute)
}
