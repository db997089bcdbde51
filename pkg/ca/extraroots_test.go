package ca

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestReadExtraRoots(t *testing.T) {
	a, b := first(t).Generations[0].Root, first(t).Generations[0].Root
	one, two := string(pki.EncodeCertificates(a)), string(pki.EncodeCertificates(b))
	_, d := interimOf(t, lostCA())
	leaf := string(pki.EncodeCertificates(leafOf(t, d.Interim.Authority, start)))
	for name, c := range map[string]struct {
		data map[string]string
		want int
		err  string
	}{
		"none":              {nil, 0, ""},
		"one":               {map[string]string{"corp.crt": one}, 1, ""},
		"two in one":        {map[string]string{"corp.crt": one + two}, 2, ""},
		"twice":             {map[string]string{"a": one, "b": two + one}, 2, ""},
		"no CA":             {map[string]string{"a": one, "b": leaf}, 1, "key b: must hold certificates of CAs in PEM: CA bundle: certificate 1"},
		"no PEM":            {map[string]string{"a": "x", "b": one}, 1, "key a: must hold certificates of CAs in PEM"},
		"empty":             {map[string]string{"a": ""}, 0, "key a: must hold certificates of CAs in PEM"},
		"as many as may be": {map[string]string{"a": manyRoots(t, 20)}, 20, ""},
		"far too large":     {map[string]string{"a": manyRoots(t, 21)}, 20, "holds 21 certificates: must hold at most 20"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadExtraRoots(c.data, nil)
			assert.Len(t, pki.NewBundle(certificates(got)...).Certificates(), c.want)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

// What is not valid any more stays as it was published, also for a process that has just started, and
// however often it is read. What was removed does not stay.
func TestInvalidExtraRootsStay(t *testing.T) {
	s := newScript(t)
	data := map[string]string{"a": manyRoots(t, 2), "b": manyRoots(t, 1), "c": manyRoots(t, 1)}
	var err error
	read := func() {
		var last *api.CAStatus
		if d := Decide(s.Situation); d.Status != nil {
			published := api.ParseCAStatus(d.Status.Data())
			last = &published
		}
		s.ExtraRoots, err = ReadExtraRoots(data, last)
	}
	read()
	require.NoError(t, err)
	before := slices.Clone(s.ExtraRoots)
	data["a"] = "garbage"
	delete(data, "b")
	for range 3 {
		read()
		require.ErrorContains(t, err, "key a: ")
		assert.ElementsMatch(t, slices.DeleteFunc(slices.Clone(before), func(r ExtraRoot) bool { return r.Key == "b" }), s.ExtraRoots)
	}
	data["d"] = manyRoots(t, 25)
	for range 3 {
		read()
		require.ErrorContains(t, err, "must hold at most 20")
		assert.Len(t, s.ExtraRoots, 20)
		assert.Subset(t, s.ExtraRoots, slices.DeleteFunc(slices.Clone(before), func(r ExtraRoot) bool { return r.Key == "b" }))
	}
	delete(data, "a")
	delete(data, "d")
	read()
	require.NoError(t, err)
	assert.Len(t, s.ExtraRoots, 1)
}

func manyRoots(t *testing.T, n int) string {
	t.Helper()
	var all strings.Builder
	for range n {
		all.Write(pki.EncodeCertificates(first(t).Generations[0].Root))
	}
	return all.String()
}

// Clients also trust the extra roots until they expire; a leaf is checked only against
// the CA's roots.
func TestExtraRootsAreInTheBundle(t *testing.T) {
	s := newScript(t)
	alone := Decide(s.Situation)
	extra := first(t).Generations[0].Root
	s.ExtraRoots = append(s.ExtraRoots, ExtraRoot{"corp.crt", extra})
	d := Decide(s.Situation)
	bundle, err := pki.ParseBundle([]byte(d.Status.Bundle))
	require.NoError(t, err)
	assert.Len(t, bundle.Certificates(), 2)
	assert.Contains(t, bundle.Certificates(), extra)
	assert.Equal(t, bundle.Hash(), d.Authority.Bundle.Hash())
	assert.Equal(t, alone.Authority.Anchors, d.Authority.Anchors)

	s.ExtraErr = errors.New("key a: wrong")
	d = Decide(s.Situation)
	require.Len(t, d.Warnings, 1)
	assert.Equal(t, "CAExtraRootsInvalid: ConfigMap servingcert-extra-roots cannot be used, and its previous roots are kept: key a: wrong", d.Warnings[0].String())

	s.Now = extra.NotAfter.Add(time.Second)
	d = Decide(s.Situation)
	assert.NotContains(t, d.Status.Bundle, string(pki.EncodeCertificates(extra)))
}

// The next generation waits until every target holds the bundle with all roots.
func TestASuccessionBesideExtraRoots(t *testing.T) {
	s := newScript(t)
	s.ExtraRoots = []ExtraRoot{{"corp.crt", first(t).Generations[0].Root}}
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	s.Trust = api.TrustStatus{BundleHash: s.state().Bundle(s.Now).Hash(), Targets: 3, Holding: 3}
	assert.Equal(t, "the rotator has not observed the new bundle yet", s.take("").Waiting)
	s.promote()
	assert.Equal(t, 2, s.state().Signing)
}

// If the roots of the lost CA were kept, the replacement signs only once clients trust
// both, so that no client fails. The webhook works meanwhile.
func TestALostCAIsReplacedWithoutAGap(t *testing.T) {
	former := newScript(t)
	old := former.state().signing().Root
	s := &script{t, lostCA()}
	s.ExtraRoots = append(s.ExtraRoots, ExtraRoot{"former.crt", old})
	s.Situation, _ = interimOf(t, s.Situation)
	s.ask(api.RotateReplaceLost, "no backup")
	s.take(StepFresh)

	d := s.take("")
	assert.Equal(t, api.CAWaitingForTrust, d.Problem.Reason)
	assert.Nil(t, d.Authority, "nothing is signed that a client might not trust")
	assert.NotNil(t, d.Interim.Authority)
	assert.Equal(t, api.PhaseWait, d.Status.Phase)
	assert.Contains(t, d.Waiting, "is the rotator running?")
	assert.Equal(t, "generation 1 was made and does not sign yet", d.Status.RotationOutcome.String())
	bundle, err := pki.ParseBundle([]byte(d.Status.Bundle))
	require.NoError(t, err)
	assert.Len(t, bundle.Certificates(), 2)

	s.promote()
	d = s.take("")
	assert.Empty(t, d.Problem)
	assert.Nil(t, d.Interim.Authority)
	assert.Equal(t, "generation 1 was made and signs", d.Status.RotationOutcome.String())
	assert.Equal(t, api.PhaseStable, s.phase())
	bundle, err = pki.ParseBundle([]byte(d.Status.Bundle))
	require.NoError(t, err)
	assert.Contains(t, bundle.Certificates(), old, "until a person takes it out")
	assert.Contains(t, d.Authority.Bundle.Certificates(), old)
}

// If the roots were not kept, waiting would help no client.
func TestALostCAIsReplacedAtOnce(t *testing.T) {
	s := &script{t, lostCA()}
	s.ask(api.RotateReplaceLost, "no backup")
	s.take(StepFresh)
	d := s.take("")
	assert.Empty(t, d.Problem)
	assert.NotNil(t, d.Authority)
}
