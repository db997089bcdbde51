package ca

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestADamagedTrustStatusIsNoEvidence(t *testing.T) {
	whole := api.TrustStatus{BundleHash: "x", Targets: 3, Holding: 3}.Data()
	assert.Zero(t, ParseTrust(whole).Pending)
	delete(whole, api.TrustPending)
	assert.Equal(t, 1, ParseTrust(whole).Pending)
}

func TestViewTrust(t *testing.T) {
	with := func(change func(*api.TrustStatus)) Situation {
		s := situation(nil)
		s.Trust = api.TrustStatus{BundleHash: "x", Targets: 9, Holding: 9, Since: s.Now}
		change(&s.Trust)
		return s
	}
	second := Generation{Number: 2, MadeAt: start}
	despite := func(s Situation) Situation {
		s.PromoteDespite = 2
		return s
	}
	waiting := with(func(t *api.TrustStatus) { t.Holding, t.Pending = 8, 1 })
	view := viewTrust(waiting, "x", second)
	assert.Contains(t, view.missing, "8 of 9 targets hold the new root")
	assert.Zero(t, view.until, "no target is given a grace")

	refused := with(func(t *api.TrustStatus) { t.Holding, t.Pending, t.Refusing = 7, 1, 1 })
	assert.Equal(t, "2 of 9 targets do not hold its root, and a person allowed it to sign without them", viewTrust(despite(refused), "x", second).without)
	assert.Equal(t, trustView{}, viewTrust(despite(with(func(*api.TrustStatus) {})), "x", second), "nobody is left behind")
}

// The rotator's clock is not checked. If it is behind, targets that refuse the root still delay it for the whole grace.
func TestTheGraceBeginsNoSoonerThanTheGeneration(t *testing.T) {
	for name, since := range map[string]time.Time{
		"the rotator's clock is right":         start,
		"the rotator's clock is days behind":   start.Add(-DefaultRefusalGrace - day),
		"the rotator observed it a day before": start.Add(-day),
	} {
		s := situation(nil)
		s.Trust = api.TrustStatus{BundleHash: "x", Targets: 9, Holding: 8, Refusing: 1, Grace: 1, Since: since, NotHolding: []api.TrustTarget{{Message: "X"}}}
		made := Generation{Number: 2, MadeAt: start}
		ends := start.Add(DefaultRefusalGrace)
		for _, now := range []time.Time{start, ends.Add(-time.Second)} {
			s.Now = now
			view := viewTrust(s, "x", made)
			assert.Contains(t, view.missing, "8 of 9 targets hold the new root", name)
			assert.Equal(t, ends, view.until, name)
		}
		s.Now = ends
		assert.NotEmpty(t, viewTrust(s, "x", made).without, name)
	}
}

// A rotator that was away for longer than the grace takes the bundle up by a clock that is a second ahead: the
// grace begins then, and is not over.
func TestTheGraceBeginsWhenTheRotatorObservesTheBundle(t *testing.T) {
	s := situation(nil)
	s.Now = start.Add(2 * DefaultRefusalGrace)
	s.Trust = api.TrustStatus{BundleHash: "x", Targets: 9, Holding: 8, Refusing: 1, Grace: 1, Since: s.Now.Add(time.Second), NotHolding: []api.TrustTarget{{Message: "X"}}}
	assert.Empty(t, viewTrust(s, "x", Generation{Number: 2, MadeAt: start}).without)
}

func TestNamedTargets(t *testing.T) {
	targets := func(n int) (s api.TrustStatus) {
		for i := range n {
			s.NotHolding = append(s.NotHolding, api.TrustTarget{Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("target-", i), Reason: "Invalid"})
		}
		s.Refusing = n
		return s
	}
	assert.Contains(t, named(targets(maxNamed)), "target-4")
	assert.NotContains(t, named(targets(maxNamed)), "in all")
	assert.NotContains(t, named(targets(maxNamed+1)), "target-5")
	assert.Contains(t, named(targets(maxNamed+1)), "; 6 in total: see ConfigMap servingcert-trust-status")
}
