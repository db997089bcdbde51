package ca

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// interimOf decides and takes the steps of the interim CA until there is none.
func interimOf(t *testing.T, s Situation) (Situation, Decision) {
	t.Helper()
	for range 3 {
		d := Decide(s)
		if d.Interim.Step == "" {
			return s, d
		}
		data, err := d.Interim.Apply(s)
		require.NoError(t, err)
		s.Interim = data
	}
	t.Fatal("it takes steps without end")
	return s, Decision{}
}

// lostCA is a cluster in which everything of servingcert was deleted, and which holds
// certificates.
func lostCA() Situation {
	s := situation(nil)
	s.ManagedExist = true
	return s
}

func TestAnInterimCASignsForOurselvesAlone(t *testing.T) {
	s, d := interimOf(t, lostCA())
	assert.Equal(t, api.CALost, d.Problem.Reason, "for everybody else nothing is signed")
	assert.Nil(t, d.Authority)
	assert.Empty(t, d.Step)

	own := d.Interim.Authority
	require.NotNil(t, own)
	require.NoError(t, own.MaySign(start.Add(interimLeaf)))
	require.Error(t, own.MaySign(start.Add(3*interimLeaf)), "its root leaves soon after the CA is back")
	leaf := leafOf(t, own, start)
	require.NotNil(t, d.Status)
	assert.Empty(t, d.Status.Bundle, "no client gets its root")
	bundle, err := pki.ParseBundle([]byte(d.Status.OwnBundle))
	require.NoError(t, err)
	assert.Equal(t, bundle.Hash(), d.Status.OwnBundleHash)
	require.NoError(t, leaf.CheckSignatureFrom(bundle.Certificates()[0]))

	again := Decide(s)
	assert.Empty(t, again.Interim.Step)
	assert.Equal(t, d.Status, again.Status)
}

func TestWhenAnInterimCAIsMade(t *testing.T) {
	stored := secretData(t, first(t))
	for name, c := range map[string]struct {
		change func(*Situation)
		want   InterimStep
	}{
		"a first start":            {func(s *Situation) { s.ManagedExist = false }, ""},
		"lost":                     {func(*Situation) {}, InterimMake},
		"corrupt":                  {func(s *Situation) { s.Secret = map[string][]byte{"state.json": []byte("{")} }, InterimMake},
		"of a newer version":       {func(s *Situation) { s.Secret = map[string][]byte{"state.json": []byte(`{"version": 9}`)} }, InterimMake},
		"the CA signs":             {func(s *Situation) { s.Secret = stored }, ""},
		"the CA has expired":       {func(s *Situation) { s.Secret, s.Now = stored, start.Add(2*DefaultCADuration) }, ""},
		"the clock is wrong":       {func(s *Situation) { s.ClockErr = errors.New("ahead") }, ""},
		"the CA is elsewhere":      {func(s *Situation) { s.HasRemote, s.RemoteErr = true, errors.New("away") }, ""},
		"what is there is corrupt": {func(s *Situation) { s.Interim = map[string][]byte{"state.json": []byte("x")} }, InterimMake},
		"what is there is corrupt, and the CA signs": {func(s *Situation) {
			s.Secret, s.Interim = stored, map[string][]byte{"state.json": []byte("x")}
		}, InterimEnd},
	} {
		t.Run(name, func(t *testing.T) {
			s := lostCA()
			c.change(&s)
			assert.Equal(t, c.want, Decide(s).Interim.Step)
		})
	}
}

// The webhook's existing certificate is kept while its root is in the bundle that was last
// published, which clients keep.
func TestWhatTheLostCASignedGoesOn(t *testing.T) {
	before := situation(secretData(t, first(t)))
	published := Decide(before)
	s := lostCA()
	s.Status = published.Status
	_, d := interimOf(t, s)

	assert.Equal(t, published.Status.Bundle, d.Status.Bundle)
	own, err := pki.ParseBundle([]byte(d.Status.OwnBundle))
	require.NoError(t, err)
	assert.Len(t, own.Certificates(), 2)
	require.Len(t, d.Interim.Authority.Older, 1)
	older := d.Interim.Authority.Older[0].Certificate
	assert.True(t, older.Equal(published.Authority.Certificate))
	leaf := leafOf(t, published.Authority, start)
	assert.True(t, d.Interim.Authority.Reissue.At(leaf.Raw).After(leaf.NotAfter), "it is not replaced before its time")
}

// After the CA is restored, the webhook may still serve a certificate of the interim CA:
// its root stays for as long, and then the interim CA is deleted.
func TestTheCAIsRestored(t *testing.T) {
	s, _ := interimOf(t, lostCA())
	interim := s.Interim
	s.Secret = secretData(t, first(t))
	s.Status = nil
	_, d := interimOf(t, s)
	require.NotNil(t, d.Authority)
	assert.Nil(t, d.Interim.Authority, "the CA signs")
	own, err := pki.ParseBundle([]byte(d.Status.OwnBundle))
	require.NoError(t, err)
	assert.Len(t, own.Certificates(), 2)
	all, err := pki.ParseBundle([]byte(d.Status.Bundle))
	require.NoError(t, err)
	assert.Len(t, all.Certificates(), 1)

	s.Interim = interim
	s.Now = start.Add(interimLeaf + markStep + 2*time.Hour)
	d = Decide(s)
	assert.Equal(t, InterimEnd, d.Interim.Step)
	assert.Empty(t, d.Status.OwnBundle)
	data, err := d.Interim.Apply(s)
	require.NoError(t, err)
	assert.Nil(t, data)
}

// If the loss is not repaired, the interim CA's mark is raised each day, and the interim
// CA is replaced in time.
func TestAnInterimCALastsAsLongAsTheLoss(t *testing.T) {
	s, _ := interimOf(t, lostCA())
	first := s.Interim
	s.Now = start.Add(30 * day)
	assert.Equal(t, InterimRaise, Decide(s).Interim.Step)
	s, d := interimOf(t, s)
	require.NoError(t, d.Interim.Authority.MaySign(s.Now.Add(interimLeaf)))
	assert.Equal(t, first["generation-1.crt"], s.Interim["generation-1.crt"])
	assert.Equal(t, pollStopped, d.RequeueAfter)

	s.Now = start.Add(interimDuration * 3 / 4)
	assert.Equal(t, InterimMake, Decide(s).Interim.Step)
}

// A wrong clock neither ends an interim CA nor removes its root.
func TestAWrongClockEndsNoInterimCA(t *testing.T) {
	s, before := interimOf(t, lostCA())
	s.Now, s.ClockErr = start.Add(2*interimDuration), errors.New("ahead")
	d := Decide(s)
	assert.Empty(t, d.Interim.Step)
	assert.Nil(t, d.Interim.Authority)
	require.NotNil(t, d.Status)
	assert.Equal(t, before.Status.OwnBundle, d.Status.OwnBundle)
}
