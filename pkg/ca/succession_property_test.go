package ca

import (
	"crypto/x509"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/bounded"
)

// Invariant 6: over any schedule of steps, deaths between any two writes, stale
// bundles, servers that reload late and clocks that differ, every client verifies
// every server, and so does one that holds only the oldest root.
func TestInvariant6TrustNeverGaps(t *testing.T) {
	if checks := flag.Lookup("rapid.checks").Value; checks.String() == "100" {
		// A world has five successions; make fuzz draws more of them.
		require.NoError(t, checks.Set("5"))
		defer func() { _ = checks.Set("100") }()
	}
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, outer)
		for generations := range 5 {
			for range 15 {
				w.act(rapid.SampledFrom([]string{"ca", "ca", "ca", "ca", "rotator", "rotator", "issue", "issue", "minute", "hour", "days", "force", "flags", "import"}).Draw(t, "act"))
				w.holds()
			}
			// Whatever happened, a generation that waits comes to sign once everything
			// runs, and in the last third of its life another follows.
			w.request, w.imported = api.RotateRequest{}, nil
			for i := 0; w.waits() || w.promotion <= generations; i++ {
				if i > 500 {
					outer.Errorf("the succession is stuck: %v", w.status)
					t.FailNow()
				}
				if w.isImported() && i%10 == 0 {
					w.act("force") // such a CA is never replaced unasked
				}
				w.ca()
				w.rotator()
				w.issue()
				if w.pass(time.Minute); !w.waits() {
					w.pass(day)
				}
				w.holds()
			}
		}
	})
}

// Whatever tenants do, a succession ends within the grace and a soak, once the rotator
// has written every other target; and it does not end earlier while the signing CA is
// valid.
func TestTenantsHoldUpNoSuccession(t *testing.T) {
	waiting := newScript(t)
	waiting.ask(api.RotateOverlap, "audit")
	waiting.take(StepPrepare)
	outer := t
	bounded.Checks(t, 40)
	rapid.Check(t, func(t *rapid.T) {
		s := *waiting
		s.T = outer
		state := s.state()
		hash := state.Bundle(s.Now).Hash()
		const step = 3 * time.Hour // each look verifies the signatures of the CA
		takenUp := s.Now.Add(time.Duration(rapid.IntRange(0, 33).Draw(t, "steps until the rotator runs")) * step)
		written := takenUp.Add(time.Duration(rapid.IntRange(0, 33).Draw(t, "steps until it has written the others")) * step)
		ends := later(takenUp.Add(s.RefusalGrace), written).Add(2 * step) // Trusted, and the soak
		for ; state.waiting(); s.Now = s.Now.Add(step) {
			require.False(outer, s.Now.After(ends), "%v", Decide(s.Situation).Waiting)
			count := func(what string) int { return rapid.IntRange(0, 3).Draw(t, what) }
			late, grace, others := count("late"), count("refuse"), 0
			if s.Now.Before(written) {
				others = 1 + count("to be written")
			}
			refusing := rapid.IntRange(0, late+grace+others).Draw(t, "of these refuse")
			s.Trust = api.TrustStatus{BundleHash: hash, Since: takenUp, Targets: 99, Holding: 99 - late - grace - others,
				Pending: late + grace + others - refusing, Refusing: refusing, Late: late, Grace: grace, Namespaces: "hostile"}
			if s.Now.Before(takenUp) {
				s.Trust = api.TrustStatus{BundleHash: "older", Since: start, Targets: 99, Holding: 99}
			}
			d := Decide(s.Situation)
			for ; d.Step.Kind == StepRaise; d = Decide(s.Situation) {
				s.take(StepRaise)
			}
			if kind := d.Step.Kind; kind != "" {
				require.False(outer, s.Now.Before(written), "%s before every other target holds the root", kind)
				require.True(outer, kind == StepTrusted || kind == StepPromote, kind)
				s.take(kind)
				state = s.state()
			}
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *world) waits() bool { return w.state().waiting() }

func (w *world) isImported() bool { return w.state().Newest().Origin == OriginImport }

// state is what the CA Secret holds; it is read once for each write.
func (w *world) state() State {
	if w.parsed == nil {
		s, err := ParseState(w.secret)
		require.NoError(w.T, err)
		w.parsed = &s
	}
	return *w.parsed
}

func (w *world) act(what string) {
	switch what {
	case "ca":
		w.ca()
	case "rotator":
		w.rotator()
	case "issue":
		w.issue()
	case "minute":
		w.pass(time.Duration(rapid.IntRange(1, 120).Draw(w.T, "seconds")) * time.Second)
	case "hour":
		w.pass(time.Duration(rapid.IntRange(1, 120).Draw(w.T, "minutes")) * time.Minute)
	case "days":
		w.pass(time.Duration(rapid.IntRange(1, 200).Draw(w.T, "hours")) * time.Hour)
	case "force":
		w.reasons++
		w.request = api.RotateRequest{Mode: api.RotateOverlap, Reason: time.Duration(w.reasons).String()}
	case "import":
		// One that may not sign CAs leaves the next generation without a cross.
		// Its algorithm changes nothing of when what is done, and each look at the CA verifies
		// its signature: P-384 took most of the time.
		root := foreignCAWith(w.T, pki.ECDSAP256, fmt.Sprintf("Example Root %d", len(w.roots)), nil, func(c *x509.Certificate) {
			c.MaxPathLenZero = rapid.Bool().Draw(w.T, "signs no CAs")
			c.NotBefore, c.NotAfter = w.now.Add(-time.Hour), w.now.Add(60*day)
		})
		imported, err := ParseImport(importOf(w.T, root))
		require.NoError(w.T, err)
		w.imported = &imported
	case "flags":
		domain := rapid.SampledFrom([]string{"cluster.local", "example.org"}).Draw(w.T, "domain")
		permitted := []string{"svc", domain}
		if rapid.Bool().Draw(w.T, "suffix") {
			permitted = append(permitted, "example.com")
		}
		w.config.Domain, w.config.Constraints = domain, pki.Constraints{PermittedDNS: permitted}.Normalize()
	}
}
