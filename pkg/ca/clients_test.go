package ca

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// ofClients is what a signer with --trust-domain sees at start of its CA for clients.
func ofClients(trustDomain string, data map[string][]byte) Situation {
	s := situation(data)
	s.Constraints = pki.ForClients(trustDomain).Normalize()
	s.Domain, s.MaxDuration, s.Reissue = "invalid", day, 0
	return s
}

// published returns the situation with the status that was decided, and a ClusterTrustBundle that holds it.
func published(t *testing.T, s Situation) Situation {
	t.Helper()
	status := Decide(s).Status
	require.NotNil(t, status)
	s.Status, s.LastStatus = status, status
	s.Trust = api.TrustStatus{BundleHash: status.BundleHash, Targets: 1, Holding: 1}
	return s
}

func TestSuccessionOfTheCAForClients(t *testing.T) {
	s := ofClients("example.com", nil)
	state := applied(t, s)
	assert.Equal(t, "example.com", state.Newest().trustDomain())
	s.Secret = encoded(t, state)
	require.Empty(t, Decide(s).Step.Kind)
	s = published(t, s)

	s.Now = state.Newest().Ends().Add(-DefaultCADuration / 3)
	for range 4 { // Raise and Prepare
		if d := Decide(s); d.Step.Kind != "" {
			s.Secret = encoded(t, applied(t, s))
		}
	}
	d := Decide(s)
	require.True(t, d.State.waiting())
	assert.Equal(t, "ClusterTrustBundle servingcert.dev:client:ca does not have its root yet", d.Waiting)
	s = published(t, s)
	require.Equal(t, StepTrusted, Decide(s).Step.Kind)
	s.Secret = encoded(t, applied(t, s))
	require.Empty(t, Decide(s).Step.Kind, "kubelets need time")
	s.Now = s.Now.Add(DefaultSoak + time.Second)
	require.Equal(t, StepPromote, Decide(s).Step.Kind)
	s.Secret = encoded(t, applied(t, s))
	ca := Decide(s).Authority
	require.NotNil(t, ca)
	assert.Equal(t, "example.com", pki.TrustDomainOf(ca.Certificate))
	assert.Len(t, ca.Anchors, 2, "servers that hold one of the two roots")
	assert.Equal(t, api.PhaseRetire, Decide(s).Status.Phase, "nothing replaces identities before kubelets do")

	s = published(t, s)
	s.Now = d.State.signing().UsedUntil.Add(clockMargin + time.Second)
	s.Secret = encoded(t, applied(t, s)) // Raise
	assert.Equal(t, api.PhaseStable, Decide(s).Status.Phase, "the last identity of generation 1 has expired")
}

// Lists of clients name the trust domain, so that it stays what it was.
func TestTheTrustDomainStays(t *testing.T) {
	before := ofClients("example.com", nil)
	s := ofClients("other.com", encoded(t, applied(t, before)))
	s = published(t, s)
	d := Decide(s)
	require.Len(t, d.Warnings, 1)
	assert.Equal(t, api.CAConstraintsChanged, d.Warnings[0].Reason)
	assert.Contains(t, d.Warnings[0].Message, `the trust domain stays "example.com"`)
	assert.Contains(t, d.Warnings[0].Message, "rotate-ca --clients --replace-lost")
	assert.NotEqual(t, StepPrepare, d.Step.Kind)

	s.Now = s.Now.Add(DefaultCADuration * 3 / 4)
	for range 4 {
		if d := Decide(s); d.Step.Kind != "" {
			s.Secret = encoded(t, applied(t, s))
		}
	}
	next := Decide(s).State.Newest()
	require.Equal(t, 2, next.Number)
	assert.Equal(t, "example.com", next.trustDomain())
}

func TestALostCAForClients(t *testing.T) {
	s := ofClients("example.com", nil)
	s.ManagedExist = true
	d := Decide(s)
	assert.Equal(t, api.CALost, d.Problem.Reason)
	assert.Contains(t, d.Problem.Message, "Secret servingcert-client-ca is missing or empty, but there was a CA: ClusterTrustBundle servingcert.dev:client:ca exists.")
	assert.Contains(t, d.Problem.Message, "kubectl servingcert rotate-ca --clients --replace-lost")
	assert.Empty(t, d.Step.Kind)
	assert.Empty(t, d.Interim.Step, "it signs for nobody else meanwhile")
}

func encoded(t *testing.T, s State) map[string][]byte {
	t.Helper()
	data, err := EncodeState(s)
	require.NoError(t, err)
	return data
}
