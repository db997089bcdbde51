package ca

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestStatusData(t *testing.T) {
	s := generations(t, 1, 2, 2)
	o := situation(nil)
	o.Now = start.Add(10 * day)
	statusData := func(o Situation, d Decision, last map[string]string) map[string]string {
		if last != nil {
			parsed := api.ParseCAStatus(last)
			o.Status, o.LastStatus = &api.CAStatus{Bundle: "changed by someone"}, &parsed
		}
		return statusOf(o, d).Data()
	}
	counted := o
	counted.Leaves = map[string]int{pki.Fingerprint(s.Generations[1].Root): 3, "another": 4}
	data := statusData(counted, Decision{State: &s, Waiting: "waiting"}, nil)
	bundle, err := pki.ParseBundle([]byte(data[api.BundleKey]))
	require.NoError(t, err)
	assert.Equal(t, s.Bundle(o.Now).PEM(), bundle.PEM(), "exactly the roots")
	assert.Equal(t, map[string]string{
		api.BundleKey: data[api.BundleKey], api.CABundleHash: bundle.Hash(), api.CAGeneration: "2",
		api.CAPhase: "Retire", api.CASince: "2026-03-03T12:10:00Z", api.CANotAfter: "2029-03-02T12:00:00Z",
		api.CAWaitingFor: "waiting", api.CALeaves: "7", api.CAReplaced: "3",
		api.CAGenerations: data[api.CAGenerations],
	}, data)

	counted.Now = s.Generations[1].SignsSince.Add(time.Second)
	assert.Equal(t, "7", statusData(counted, Decision{State: &s}, nil)[api.CALeaves], "while certificates are issued again")
	counted.Now = s.Generations[0].UsedUntil.Add(clockMargin + time.Second)
	stable := statusData(counted, Decision{State: &s}, nil)
	assert.NotContains(t, stable, api.CALeaves, "there are no others any more")
	assert.Equal(t, []string{"Stable", "2026-05-31T12:00:00Z"}, []string{stable[api.CAPhase], stable[api.CASince]}, "since the last of another ended")

	lost := Decision{Problem: api.CAMessage{Reason: api.CALost, Message: "gone"}}
	without := statusData(o, lost, data)
	assert.Equal(t, data[api.BundleKey], without[api.BundleKey], "what is trusted stays trusted")
	assert.Equal(t, "CALost: gone", without[api.CAProblem])
	assert.NotContains(t, data, api.CAProblem, "the argument was changed")
	assert.NotContains(t, statusData(o, Decision{State: &s}, without), api.CAProblem, "a problem that is over stays on")

	expired := Decision{Problem: api.CAMessage{Reason: api.CAExpired, Message: "over"}, State: &s, Warnings: []api.CAMessage{{Reason: "A", Message: "a"}, {Reason: "B", Message: "b"}}}
	assert.Equal(t, data[api.BundleKey], statusData(o, expired, nil)[api.BundleKey])
	assert.Equal(t, "CAExpired: over", statusData(o, expired, nil)[api.CAProblem])
	assert.Equal(t, "A: a\nB: b", statusData(o, expired, nil)[api.CAWarning])

	skewed := o
	skewed.ClockErr = errors.New("3m ahead")
	assert.Equal(t, "ClockSkew: 3m ahead", statusData(skewed, Decision{State: &s}, nil)[api.CAProblem])
	assert.Equal(t, "CALost: gone", statusData(skewed, lost, data)[api.CAProblem])

	waiting := generations(t, 1, 3, 2)
	waiting.Generations[2].Why = "requested: x"
	waiting.Rotation = Rotation{Mode: api.RotateOverlap, Reason: "x", Generation: 3}
	data = statusData(o, Decision{State: &waiting}, nil)
	assert.Equal(t, []string{"Wait", "2", "3", "requested: x", "overlap:x", "generation 3 was made and does not sign yet"},
		[]string{data[api.CAPhase], data[api.CAGeneration], data[api.CANextGeneration], data[api.CAWhy], data[api.CARotation], data[api.CARotationOutcome]})
}

func TestNoStatusWithoutACA(t *testing.T) {
	lost := situation(nil)
	lost.ManagedExist = true
	assert.Nil(t, Decide(lost).Status, "it would be evidence of a CA for ever")
	lost.Status = &api.CAStatus{Bundle: "x"}
	assert.Equal(t, "x", Decide(lost).Status.Bundle, "a process that has just started keeps what is there")
}

// A status with the current time would be written at each decision, and sent as an event
// too.
func TestStatusOfAnImportDoesNotChangeWithTime(t *testing.T) {
	for what, shift := range map[string]time.Duration{"expired": -400 * day, "not valid yet": 400 * day} {
		root := foreignCA(t, "Example Root", nil, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = c.NotBefore.Add(shift), c.NotAfter.Add(shift) })
		imported, err := ParseImport(importOf(t, root))
		require.NoError(t, err)
		s := newScript(t)
		s.Import = &imported
		first := s.take("")
		require.Len(t, first.Warnings, 1, what)
		s.Now = s.Now.Add(time.Minute)
		assert.Equal(t, first.Status.Data(), s.take("").Status.Data(), what)
	}
}
