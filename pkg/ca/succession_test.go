package ca

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// script takes one step after the other, with a fast rotator.
type script struct {
	*testing.T
	Situation
}

func newScript(t *testing.T) *script {
	s := &script{t, situation(nil)}
	s.take(StepFresh)
	return s
}

func (s *script) state() State {
	state, err := ParseState(s.Secret)
	require.NoError(s, err)
	return state
}

// trusted makes every target hold the published bundle.
func (s *script) trusted() {
	s.Trust = api.TrustStatus{BundleHash: s.state().bundle(s.ExtraRoots, s.Now).Hash(), Targets: 3, Holding: 3}
}

// take takes the next step, which must be of the kind.
func (s *script) take(kind StepKind) Decision {
	s.Helper()
	d := Decide(s.Situation)
	require.Equal(s, kind, d.Step.Kind, "%+v", d)
	if kind != "" {
		_, data, err := d.Apply(s.Situation)
		require.NoError(s, err)
		s.Secret = data
	}
	return d
}

// promote takes the steps until the waiting generation signs.
func (s *script) promote() {
	s.Helper()
	s.trusted()
	s.take(StepTrusted)
	s.Now = s.Now.Add(s.Soak)
	s.take(StepPromote)
	s.Now = s.Now.Add(time.Minute)
}

func (s *script) ask(mode api.RotateMode, reason string) {
	s.Request = api.RotateRequest{Mode: mode, Reason: reason}
}

func (s *script) phase() string {
	phase, _ := s.state().phase(s.Now, s.Reissue)
	return phase
}

func TestForcedSuccession(t *testing.T) {
	s := newScript(t)
	first := s.state().signing()
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	assert.Equal(t, api.PhaseWait, s.phase())
	waiting := s.state()
	assert.Equal(t, 1, waiting.Signing, "what nobody trusts yet does not sign")
	assert.Equal(t, "generation 2 was made and does not sign yet", waiting.Rotation.outcome(waiting.Signing).String())
	assert.Len(t, waiting.Bundle(s.Now).Certificates(), 2)

	for what, trust := range map[string]api.TrustStatus{
		"is the rotator running?":                     {},
		"has not observed the new bundle":             {BundleHash: "older", Targets: 3, Holding: 3},
		"2 of 3 targets hold the new root; not: X":    {BundleHash: waiting.Bundle(s.Now).Hash(), Targets: 3, Holding: 2, Pending: 1, NotHolding: []api.TrustTarget{{Message: "X"}}},
		"kubectl servingcert rotate-ca --proceed 2":   {BundleHash: waiting.Bundle(s.Now).Hash(), Targets: 3, Holding: 2, Refusing: 1, NotHolding: []api.TrustTarget{{Message: "X"}}},
		"1 of 3 targets hold the new root; not: X; Y": {BundleHash: waiting.Bundle(s.Now).Hash(), Targets: 3, Holding: 1, Pending: 2, NotHolding: []api.TrustTarget{{Message: "X"}, {Message: "Y"}}},
	} {
		s.Trust = trust
		assert.Contains(t, s.take("").Waiting, what)
	}
	s.trusted()
	s.take(StepTrusted)
	d := s.take("")
	assert.Contains(t, d.Waiting, "pods get it by 2026-03-01T12:07:00Z")
	assert.Equal(t, s.Now.Add(s.Soak), d.Next)
	s.Now = s.Now.Add(s.Soak - time.Second)
	s.take("")
	s.Now = s.Now.Add(time.Second)
	s.Trust.Pending = 1
	s.take("")
	s.Trust.Pending = 0
	s.take(StepPromote)

	promoted := s.state()
	assert.Equal(t, 2, promoted.Signing)
	assert.Nil(t, promoted.Generations[0].Key, "the old key is erased")
	assert.False(t, promoted.signing().UsedUntil.Before(s.Now.Add(maxDuration)), "the mark is there before the first leaf")
	assert.Equal(t, "generation 2 was made and signs", promoted.Rotation.outcome(promoted.Signing).String())
	assert.Equal(t, api.PhaseReissue, s.phase())
	s.take("")
	s.Now = s.Now.Add(s.Reissue)
	assert.Equal(t, api.PhaseRetire, s.phase())
	assert.Contains(t, s.take("").Waiting, "the last certificate of generation 1")

	s.Now = first.UsedUntil.Add(clockMargin)
	s.take(StepRaise)
	s.take("")
	assert.Equal(t, api.PhaseRetire, s.phase())
	s.Now = s.Now.Add(time.Second)
	s.take("")
	assert.Equal(t, api.PhaseStable, s.phase())
	kept := s.state()
	assert.Len(t, kept.Bundle(s.Now).Certificates(), 2, "a chain that ends at the first root is served: GnuTLS must find that in the bundle")
	assert.Len(t, kept.authority(s.Situation).Chain, 1, "for clients that still hold the first root")

	retired, _ := tidied(kept, first.Root.NotAfter.Add(time.Second))
	assert.Len(t, retired.Generations, 1)
}

func TestOneSuccessionPerRequest(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	s.take("")
	s.ask(api.RotateOverlap, "another's") // asked for at the same moment, or a little later
	assert.Contains(t, s.take("").Waiting, `Then rotation "another's" follows`)
	s.ask(api.RotateOverlap, "audit")
	s.promote()
	s.take("")

	s.ask(api.RotateOverlap, "another's")
	s.take(StepPrepare)
	s.promote()
	assert.Equal(t, 3, s.state().Signing)
	assert.Len(t, s.state().authority(s.Situation).Older, 2)
	s.ask(api.RotateForce, "another's")
	s.take(StepPrepare)
}

// Refusing targets in namespaces delay a new generation for the grace, and other targets
// until there is no time to wait. Late requests do not count.
func TestRefusalGrace(t *testing.T) {
	trust := func(pending, refusing, grace, late int) api.TrustStatus {
		return api.TrustStatus{Targets: 9, Holding: 9 - pending - refusing, Pending: pending, Refusing: refusing, Grace: grace, Late: late,
			Namespaces: "bank", NotHolding: []api.TrustTarget{{Message: "X"}}}
	}
	const (
		waits    = "9 targets hold the new root; not: X"
		forAtime = ". It does not wait for targets in these namespaces after 2026-03-04T12:00:00Z: bank. To continue without them: kubectl servingcert rotate-ca --proceed 2"
	)
	tests := []struct {
		name    string
		trust   api.TrustStatus
		waiting string // "": the generation is trusted
		ends    bool   // the waiting, with the grace
	}{
		{"all hold it", trust(0, 0, 0, 0), "", true},
		{"one is late", trust(1, 0, 0, 1), "", true},
		{"some are late, and refuse", trust(1, 2, 0, 3), "", true},
		{"one is to be written", trust(1, 0, 0, 0), "8 of " + waits, false},
		{"one is to be written, and others are late", trust(2, 2, 0, 3), "5 of " + waits, false},
		{"one of a namespace refuses", trust(0, 1, 1, 0), "8 of " + waits + forAtime, true},
		{"one of a namespace lost it again", trust(1, 0, 1, 0), "8 of " + waits + forAtime, true},
		{"one of the cluster refuses", trust(0, 1, 0, 0), "8 of " + waits + ". To continue without them: kubectl servingcert rotate-ca --proceed 2", false},
		{"one of each refuses", trust(0, 2, 1, 0), "7 of " + waits + forAtime, false},
		{"counts that contradict each other", trust(0, 0, 0, 1), "9 of " + waits, false},
		{"more wait for the end of the grace than there are", trust(0, 0, 1, 0), "9 of " + waits + forAtime, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			s.ask(api.RotateOverlap, "audit")
			s.take(StepPrepare)
			s.Trust, s.Trust.BundleHash, s.Trust.Since = tt.trust, s.state().Bundle(s.Now).Hash(), s.Now
			graceEnds := s.Now.Add(DefaultRefusalGrace)
			if tt.waiting == "" {
				s.take(StepTrusted)
				return
			}
			d := s.take("")
			assert.Contains(t, d.Waiting, tt.waiting)
			if tt.trust.Grace > 0 {
				require.Len(t, d.Warnings, 1)
				assert.Equal(t, api.SuccessionHeldUp, d.Warnings[0].Reason)
				assert.Contains(t, d.Warnings[0].Message, "bank")
				assert.False(t, d.Next.After(graceEnds), "it looks again then")
			} else {
				assert.NotContains(t, d.Waiting, "2026-03-04")
			}
			s.Now = graceEnds.Add(-time.Second)
			s.take(StepRaise)
			s.take("")
			s.Now = graceEnds
			if !tt.ends {
				assert.Empty(t, s.take("").Warnings, "there is nothing to say of the grace any more")
				s.PromoteDespite = 2
			}
			s.take(StepTrusted)
			s.Now = s.Now.Add(s.Soak)
			d = s.take(StepPromote)
			if tt.ends {
				assert.Equal(t, "targets in these namespaces have not held its root for 72h0m0s: bank", d.Step.Why)
			}
		})
	}
}

// A person can let one generation sign regardless of the targets that do not hold
// its root, once the rotator has observed its bundle.
func TestPromoteDespite(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	s.PromoteDespite = 2
	s.take("")
	s.Trust = api.TrustStatus{BundleHash: s.state().Bundle(s.Now).Hash(), Targets: 3, Pending: 2, Refusing: 1, Since: s.Now}
	s.PromoteDespite = 1
	s.take("")
	s.PromoteDespite = 2
	s.take(StepTrusted)
	s.Now = s.Now.Add(s.Soak)
	assert.Equal(t, "3 of 3 targets do not hold its root, and a person allowed it to sign without them", s.take(StepPromote).Step.Why)
}

// The published status names a few targets: the trust status names more.
func TestWaitingIsBounded(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	s.Trust = api.TrustStatus{BundleHash: s.state().Bundle(s.Now).Hash(), Targets: 5000, Refusing: 5000, Grace: 5000, Since: s.Now, Unlisted: 5000 - api.TrustMaxListed,
		Namespaces: strings.Repeat("n", 63*api.TrustMaxNamespaces)}
	for range api.TrustMaxListed {
		s.Trust.NotHolding = append(s.Trust.NotHolding, api.TrustTarget{Kind: "ConfigMap", Namespace: strings.Repeat("n", 63), Name: strings.Repeat("x", 253), Reason: "Invalid", Message: strings.Repeat("m", 5000)})
	}
	d := s.take("")
	assert.Less(t, len(d.Waiting), 4<<10)
	assert.Contains(t, d.Waiting, "; 5000 in total: see ConfigMap servingcert-trust-status. It does not wait")
}

// A fourth within the life of the first would need a fourth cross.
func TestAFourthIsRefused(t *testing.T) {
	s := newScript(t)
	for _, reason := range []string{"a", "b", "c"} {
		s.ask(api.RotateOverlap, reason)
		s.take(StepPrepare)
		s.promote()
	}
	require.Len(t, s.state().authority(s.Situation).Chain, maxCrosses)
	s.ask(api.RotateOverlap, "d")
	s.take(StepRefuse)
	s.take("")
	assert.Contains(t, s.state().Rotation.outcome(s.state().Signing).String(), "refused: clients that hold only the root of generation 1 (servingcert CA 1")
	s.ask("", "")
	imported, err := ParseImport(importOf(t, foreignCA(t, "Example Root", nil)))
	require.NoError(t, err)
	s.Import = &imported
	d := s.take("")
	require.Len(t, d.Warnings, 1)
	assert.Contains(t, d.Warnings[0].Message, "could not verify a new generation: it is imported after that root has expired")
	s.Import = nil
	s.take("")

	newest := s.state().Newest()
	s.Now = newest.Root.NotAfter.Add(-pki.Lifetime(newest.Root) / 3) // nobody asks for it: it waits
	s.take(StepRaise)
	d = s.take("")
	require.Len(t, d.Warnings, 1)
	assert.Equal(t, api.SuccessionWaits, d.Warnings[0].Reason)
	last := newest.Root.NotAfter.Add(-2*s.Soak - markSlack)
	assert.Contains(t, d.Warnings[0].Message, "or until "+formatTime(last))
	s.ask(api.RotateForce, "d")
	s.take(StepPrepare)
	s.promote()
	a := s.state().authority(s.Situation)
	assert.Len(t, a.Chain, maxCrosses)
	assert.Len(t, a.Anchors, maxCrosses+1, "the first root is left out")
	assert.Len(t, a.Bundle.Certificates(), 5)
}

func TestDistrustNow(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	before := s.state()
	const key = "replaced-by-1-generation-1.key"
	s.Secret[key] = []byte("of a CA before, which lay in the same Secret")
	aside := func() bool { _, there := s.Secret[key]; return there } // no failure prints a key
	s.ask(api.RotateForce, "another")
	s.take("")
	require.True(t, aside(), "it may still be of use")
	s.ask(api.RotateDistrust, "stolen")
	s.take(StepFresh)
	s.take("")
	require.False(t, aside())
	fresh := s.state()
	require.Len(t, fresh.Generations, 1, "the one that was prepared lay in the same Secret")
	assert.Equal(t, 3, fresh.Signing)
	assert.Nil(t, fresh.Generations[0].Cross)
	for _, g := range before.Generations {
		assert.NotContains(t, fresh.Bundle(s.Now).Certificates(), g.Root)
	}
	a := fresh.authority(s.Situation)
	assert.Empty(t, a.Older, "what was signed before is nobody's")
	assert.Equal(t, pki.Window{}, a.Reissue, "everything is replaced at once")
}

func TestReplaceLost(t *testing.T) {
	s := newScript(t)
	s.Secret, s.Status = nil, &api.CAStatus{Generation: 4}
	s.take("")
	s.ask(api.RotateReplaceLost, "disk")
	s.HasRemote = true
	s.take("")
	ended := foreignCA(t, "Ended", nil, func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Hour) })
	s.Remote = at(ended)
	s.take("")
	s.HasRemote, s.Remote = false, nil
	s.take(StepFresh)
	s.take("")
	assert.Equal(t, 5, s.state().Signing, "no number is used twice")
	assert.Equal(t, "disk", s.state().Rotation.Reason)
}

// The request that replaced a lost CA stays in the annotations, but applies only to that
// loss.
func TestReplaceLostIsForOneLoss(t *testing.T) {
	for what, data := range map[string]map[string][]byte{"lost": nil, "corrupt": {"state.json": []byte("{}")}} {
		t.Run(what, func(t *testing.T) {
			s := newScript(t)
			s.Secret, s.Status = data, &api.CAStatus{}
			s.ask(api.RotateReplaceLost, "disk")
			s.take(StepFresh)
			s.published()
			s.Secret = data
			d := s.take("")
			assert.NotEmpty(t, d.Problem.Reason)
			s.ask(api.RotateReplaceLost, "disk again")
			s.take(StepFresh)
		})
	}
}

// The content of a corrupt Secret is set aside: a person may need it.
func TestACorruptSecretIsSetAside(t *testing.T) {
	s := newScript(t)
	s.Secret = map[string][]byte{"state.json": []byte("{}"), "note": []byte("backed up")}
	s.ask(api.RotateReplaceLost, "disk")
	s.take(StepFresh)
	assert.Equal(t, "{}", string(s.Secret["replaced-by-1-state.json"]))
	assert.Equal(t, "backed up", string(s.Secret["note"]))
	assert.NotContains(t, s.Secret, "replaced-by-1-note")
}

// The successor of a CA that has expired, or is about to, does not wait for trust.
func TestNoTimeToWait(t *testing.T) {
	s := newScript(t)
	root := s.state().signing().Root
	s.Now = root.NotAfter.Add(-s.Soak)
	s.take(StepRaise)
	s.take(StepPrepare)
	s.take(StepPromote)

	s = newScript(t)
	s.Now = s.state().signing().Root.NotAfter.Add(day)
	s.take(StepRaise)
	d := s.take(StepPrepare)
	assert.Equal(t, api.CAExpired, d.Problem.Reason)
	s.take(StepPromote)
	assert.Nil(t, s.state().signing().Cross, "by an expired CA it helps nobody")
	s.take(StepRetire)
	assert.Empty(t, s.take("").Problem.Reason)
}

// Names that an older root does not permit stay out until it has retired, and the
// names of a former cluster domain in.
func TestChangedClusterDomain(t *testing.T) {
	s := newScript(t)
	s.Domain, s.Constraints = "example.org", pki.Constraints{PermittedDNS: []string{"svc", "example.org"}}
	permits := func() [3]bool {
		a := s.state().authority(s.Situation)
		return [3]bool{a.Permits("web.shop.svc"), a.Permits("web.shop.svc.cluster.local"), a.Permits("web.shop.svc.example.org")}
	}
	former := func() []string { return s.state().authority(s.Situation).FormerDomains }
	s.take(StepPrepare)
	assert.Equal(t, [3]bool{true, true, false}, permits())
	assert.Equal(t, []string{"cluster.local"}, former())
	s.promote()
	assert.Equal(t, [3]bool{true, true, false}, permits(), "the first root still judges")
	assert.Equal(t, []string{"cluster.local"}, former())
	s.Now = s.state().Generations[0].UsedUntil.Add(clockMargin + time.Second)
	s.take(StepRaise)
	s.take(StepRetire)
	assert.True(t, permits()[2])
	assert.Empty(t, former())
	s.take("")
}
