package ca

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// at returns the authority, which is a root, as a remote CA.
func at(root authority) *Candidate {
	c := NewCandidate(OriginRemote, []*x509.Certificate{root.cert}, root.cert, nil)
	return &c
}

// following is a remote CA that was one and is to be two.
func following(t *testing.T, one, two authority) *script {
	s := &script{t, situation(nil)}
	s.HasRemote, s.Remote = true, at(one)
	s.take(StepFresh)
	s.Remote = at(two)
	s.take(StepPrepare)
	return s
}

// While the new CA waits, the old one may still sign: one of the servers may still have
// it. The new one signs once it is trusted and the remote CA uses it.
func TestRemoteSignsWhileAnotherWaits(t *testing.T) {
	one, two := foreignCA(t, "One", nil), foreignCA(t, "Two", nil)
	s := following(t, one, two)
	assert.Empty(t, s.take("").Problem.Reason)
	s.trusted()
	s.take(StepTrusted)
	s.Now = s.Now.Add(s.Soak)

	s.Remote, s.RemoteErr = nil, errors.New("no answer")
	assert.Contains(t, s.take("").Waiting, "the remote CA does not sign with its key: no answer")
	s.Remote, s.RemoteErr = at(one), nil
	assert.Contains(t, s.take("").Waiting, "the remote CA does not sign with its key: its issuer is One")
	assert.Equal(t, api.PhaseWait, s.phase())
	s.Remote = at(two)
	s.take(StepPromote)
	s.take("")
}

// A waiting generation that is no longer the remote CA is abandoned: it has signed nothing.
func TestRemoteThatIsAnotherBeforeItSigns(t *testing.T) {
	one, two, three := foreignCA(t, "One", nil), foreignCA(t, "Two", nil), foreignCA(t, "Three", nil)
	s := following(t, one, two)
	s.Remote = at(three)
	s.take(StepAbandon)
	assert.Equal(t, api.PhaseStable, s.phase())
	s.take(StepPrepare)
	assert.Equal(t, three.cert, s.state().Newest().Root)
	s.promote()
	assert.Equal(t, three.cert, s.state().signing().Root)

	s = newScript(t)
	s.HasRemote, s.Remote = true, at(one)
	s.take(StepPrepare)
	s.HasRemote, s.Remote = false, nil
	s.take(StepAbandon)
	s.take("")
	require.Len(t, s.state().Generations, 1)
	assert.Len(t, s.state().Bundle(s.Now).Certificates(), 1)
}

// A remote CA that was replaced may come back, and the one here as well.
func TestRemoteComesBack(t *testing.T) {
	one, two := foreignCA(t, "One", nil), foreignCA(t, "Two", nil)
	s := following(t, one, two)
	s.promote()
	s.Remote = at(one)
	s.take(StepPrepare)
	s.Remote = at(two) // of two servers, the first was away
	s.take(StepAbandon)
	s.take("")
	s.Remote = at(one)
	s.take(StepPrepare)
	s.promote()
	a := s.state().authority(s.Situation)
	assert.Equal(t, one.cert, a.Certificate)
	assert.Equal(t, []*x509.Certificate{one.cert}, a.Anchors)
	assert.Len(t, a.Bundle.Certificates(), 2)

	s.HasRemote, s.Remote = false, nil
	s.take(StepPrepare)
	assert.Equal(t, api.CAWaitingForTrust, s.take("").Problem.Reason, "it signs no more, and nobody trusts the next")
	s.promote()
	s.HasRemote, s.Remote = true, at(one)
	s.take(StepPrepare)
	s.promote()
	a = s.state().authority(s.Situation)
	assert.Equal(t, one.cert, a.Certificate)
	require.Len(t, a.Chain, 1, "signed by the one that was here")
	s.take("")
}

// A remote CA that is not reached for a moment, or whose replacement cannot be used yet, does not use up the request to
// distrust it.
func TestDistrustWaitsForTheRemote(t *testing.T) {
	one, two := foreignCA(t, "One", nil), foreignCA(t, "Two", nil)
	later := foreignCA(t, "Later", nil, func(c *x509.Certificate) { c.NotBefore = start.Add(time.Hour) })
	for what, unknown := range map[string]*Candidate{"not reached": nil, "not valid yet": at(later)} {
		t.Run(what, func(t *testing.T) {
			s := &script{t, situation(nil)}
			s.HasRemote, s.Remote = true, at(one)
			s.take(StepFresh)
			s.ask(api.RotateDistrust, "stolen")
			s.Remote, s.RemoteErr = unknown, errors.New("no answer")
			d := s.take("")
			assert.Contains(t, d.Waiting, `rotation "stolen" waits for a remote CA`)
			assert.Equal(t, pollStopped, d.RequeueAfter, "it is asked again soon")
			assert.Empty(t, d.Problem.Reason)
			s.Remote, s.RemoteErr = at(two), nil
			s.take(StepFresh)
			s.take("")
			assert.Equal(t, []*x509.Certificate{two.cert}, s.state().Bundle(s.Now).Certificates())

			s.published()
			s.Secret, s.Remote, s.RemoteErr = nil, unknown, errors.New("no answer")
			s.ask(api.RotateReplaceLost, "disk")
			d = s.take("")
			assert.Contains(t, d.Status.WaitingFor, `rotation "disk" waits for a remote CA`)
			s.Remote, s.RemoteErr = at(one), nil
			s.take(StepFresh)
		})
	}
	s := &script{t, situation(nil)}
	s.HasRemote, s.Remote = true, at(one)
	s.take(StepFresh)
	s.ask(api.RotateDistrust, "stolen")
	s.take(StepRefuse)
}

// An imported CA follows a remote CA at once, not one made here meanwhile.
func TestAnImportFollowsARemote(t *testing.T) {
	s := following(t, foreignCA(t, "One", nil), foreignCA(t, "Two", nil))
	s.promote()
	imported, err := ParseImport(importOf(t, foreignCA(t, "Imported", nil)))
	require.NoError(t, err)
	s.HasRemote, s.Remote, s.Import = false, nil, &imported
	s.take(StepPrepare)
	assert.Equal(t, OriginImport, s.state().Newest().Origin)
}
