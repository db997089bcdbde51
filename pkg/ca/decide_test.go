package ca

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestDecide(t *testing.T) {
	stored := secretData(t, first(t))
	root := first(t).Generations[0].Root // of the same times
	late := root.NotAfter.Add(-time.Hour)
	asks := func(mode api.RotateMode) func(*Observed) {
		return func(o *Observed) { o.Request = Request{Mode: mode, Reason: "stolen"} }
	}
	lost := func(o *Observed) { o.Secret, o.StatusExists, o.StatusGeneration = nil, true, 4 }
	cases := []struct {
		name    string
		change  func(*Observed)
		step    StepKind
		reason  string
		message string // a part of it
		warning string // a part of it
	}{
		{name: "a first start", change: func(o *Observed) { o.Secret = nil }, step: StepFresh, reason: ReasonPending},
		{name: "a first start on an empty Secret", change: func(o *Observed) { o.Secret = map[string][]byte{} }, step: StepFresh, reason: ReasonPending},
		{name: "a first start by a wrong clock", change: func(o *Observed) { o.Secret, o.ClockErr = nil, errors.New("3m ahead") }, reason: ReasonPending, message: "3m ahead"},
		{
			name:   "gone, and a status shows that there was a CA",
			change: func(o *Observed) { o.Secret, o.StatusExists = nil, true },
			reason: ReasonLost, message: "ConfigMap servingcert-ca-status exists. Restore the Secret",
		},
		{
			name:   "gone, and issued Secrets show it",
			change: func(o *Observed) { o.Secret, o.ManagedExist = nil, true },
			reason: ReasonLost, message: "Secrets with issued certificates exist",
		},
		{
			name:   "emptied",
			change: func(o *Observed) { o.Secret, o.StatusExists, o.ManagedExist = map[string][]byte{}, true, true },
			reason: ReasonLost, message: "missing or empty",
		},
		{name: "gone, and a person gives it up", change: func(o *Observed) { lost(o); asks(api.RotateReplaceLost)(o) }, step: StepFresh, reason: ReasonLost},
		{name: "gone, and a person asks for something else", change: func(o *Observed) { lost(o); asks(api.RotateForce)(o) }, reason: ReasonLost},
		{name: "gone, and a person distrusts it", change: func(o *Observed) { lost(o); asks(api.RotateDistrust)(o) }, reason: ReasonLost},
		{
			name:   "someone else's Secret under the name, at a first start",
			change: func(o *Observed) { o.Secret = map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("x")} },
			reason: ReasonCorrupt, message: "state.json: missing",
		},
		{
			name:   "corrupt, whatever else there is",
			change: func(o *Observed) { o.Secret = map[string][]byte{"state.json": []byte("{}")}; o.StatusExists = true },
			reason: ReasonCorrupt, message: "Secret servingcert-ca cannot be used",
		},
		{
			name: "corrupt, and a person gives it up",
			change: func(o *Observed) {
				o.Secret = map[string][]byte{"state.json": []byte("{}")}
				asks(api.RotateReplaceLost)(o)
			},
			step: StepFresh, reason: ReasonCorrupt,
		},
		{name: "stored"},
		{name: "stored, as ever", change: func(o *Observed) { o.StatusExists, o.ManagedExist = true, true }},
		{name: "the clock is behind by less than the backdating", change: func(o *Observed) { o.Now = root.NotBefore }},
		{
			name:   "the clock is behind",
			change: func(o *Observed) { o.Now = root.NotBefore.Add(-time.Second) },
			reason: ReasonNotYetValid, message: "is not valid before 2026-03-01T11:55:00Z",
		},
		{name: "a second before the mark is due", change: func(o *Observed) { o.Now = start.Add(day - time.Second) }},
		{name: "the mark is due", change: func(o *Observed) { o.Now = start.Add(day) }, step: StepRaise},
		{name: "the mark is due, and the clock is wrong", change: func(o *Observed) { o.Now, o.ClockErr = start.Add(day), errors.New("3m ahead") }},
		{name: "a longer maximum needs a higher mark", change: func(o *Observed) { o.MaxDuration += 2 * day }, step: StepRaise},
		{name: "a shorter maximum needs none", change: func(o *Observed) { o.MaxDuration = day }},
		{name: "the last hour", change: func(o *Observed) { o.Now = late }, step: StepRaise},
		{
			name:   "expired",
			change: func(o *Observed) { o.Now = root.NotAfter.Add(time.Second) },
			step:   StepRaise, reason: ReasonExpired, message: "expired at 2029-02-28T11:55:00Z",
		},
		{name: "the flags permit more", change: func(o *Observed) { o.Wanted = wider }, step: StepPrepare},
		{name: "the flags permit IPs", change: func(o *Observed) { o.Wanted.PermitIPs = true }, step: StepPrepare},
		{name: "the flags permit less", change: func(o *Observed) { o.Wanted.PermittedDNS = []string{"svc"} }},
		{name: "the flags in another order", change: func(o *Observed) { o.Wanted.PermittedDNS = []string{"svc", "cluster.local", "svc"} }},
		{name: "asked for", change: asks(api.RotateOverlap), step: StepPrepare},
		{name: "asked for with force", change: asks(api.RotateForce), step: StepPrepare},
		{name: "distrusted", change: asks(api.RotateDistrust), step: StepFresh},
		{name: "not lost", change: asks(api.RotateReplaceLost), step: StepRefuse},
		{name: "asked for, and the clock is wrong", change: func(o *Observed) { asks(api.RotateDistrust)(o); o.ClockErr = errors.New("3m ahead") }},
		{name: "no such mode", change: func(o *Observed) {
			o.Request = ParseRequest(map[string]string{api.AnnotationRotate: "x", api.AnnotationRotateMode: "soon"})
		}, warning: `RotationInvalid: servingcert.dev/rotate-mode: "soon": must be overlap, force, distrust-now, replace-lost`},
		{name: "the Secret is older than the status", change: func(o *Observed) { o.StatusGeneration = 2 }, warning: "CARestored: Secret servingcert-ca knows 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := observed(stored)
			if c.change != nil {
				c.change(&o)
			}
			d := Decide(o)
			assert.Equal(t, c.step, d.Step.Kind)
			assert.Equal(t, c.reason, d.Reason)
			assert.Contains(t, d.Message, c.message)
			assert.Equal(t, c.reason != "", d.Message != "", "a message, exactly if signing stops")
			assert.Equal(t, c.warning != "", len(d.Warnings) > 0)
			if c.warning != "" {
				assert.Contains(t, d.Warnings[0].Reason+": "+d.Warnings[0].Message, c.warning)
			}
			later := o
			later.Now = o.Now.Add(time.Second)
			if d.Reason == Decide(later).Reason {
				assert.Equal(t, d.Message, Decide(later).Message, "a message that changes with the time is a write each time")
			}
			if d.Step.Kind != "" {
				next := o
				next.Secret = secretData(t, applied(t, o))
				assert.NotEqual(t, d.Step, Decide(next).Step, "a step is taken once")
			}
		})
	}
}

var wider = pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "apps.example.com"}}

// The worst that could be decided: a new CA where there was one.
func TestNeverANewCAWithEvidenceOfOne(t *testing.T) {
	stored := secretData(t, first(t))
	rapid.Check(t, func(t *rapid.T) {
		data := maps.Clone(stored)
		for key := range stored {
			switch rapid.SampledFrom([]string{"keep", "keep", "empty", "delete", "garbage"}).Draw(t, key) {
			case "empty":
				data[key] = nil
			case "delete":
				delete(data, key)
			case "garbage":
				data[key] = rapid.SliceOf(rapid.Byte()).Draw(t, "garbage")
			}
		}
		o := observed(data)
		o.StatusExists, o.ManagedExist = rapid.Bool().Draw(t, "status"), rapid.Bool().Draw(t, "managed")
		o.Now = start.Add(time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(t, "now")) * time.Second)
		o.Request = Request{Mode: rapid.SampledFrom([]api.RotateMode{"", api.RotateOverlap, api.RotateForce}).Draw(t, "mode"), Reason: rapid.SampledFrom([]string{"", "x"}).Draw(t, "reason")}
		d := Decide(o)
		if d.Step.Kind == StepFresh {
			require.Empty(t, data, "something is overwritten")
			require.False(t, o.StatusExists || o.ManagedExist, "there was a CA")
		}
		if d.Reason == "" {
			require.NoError(t, pki.CheckCA(d.State.signing().Root, d.State.signing().Key, o.Now))
		}
	})
}

func TestNextIsWhenTheDecisionChanges(t *testing.T) {
	quiet := func(o Observed) Decision {
		d := Decide(o)
		require.Empty(t, d.Step)
		return d
	}
	o := observed(secretData(t, first(t)))
	d := quiet(o)
	o.Now = d.Next.Add(-time.Second)
	quiet(o)
	o.Now = d.Next
	assert.Equal(t, StepRaise, Decide(o).Step.Kind)

	end := first(t)
	end.Generations[0].UsedUntil = end.Generations[0].Root.NotAfter
	o = observed(secretData(t, end))
	d = quiet(o)
	third := end.Generations[0].Root.NotAfter.Add(-DefaultCADuration / 3)
	assert.Equal(t, third, d.Next)
	o.Now = third.Add(-time.Second)
	quiet(o)
	o.Now = third
	assert.Equal(t, StepPrepare, Decide(o).Step.Kind)

	o.Now = end.Generations[0].Root.NotBefore.Add(-time.Hour)
	d = quiet(o)
	require.Equal(t, ReasonNotYetValid, d.Reason)
	o.Now = d.Next
	assert.Empty(t, Decide(o).Reason)

	crossed := ladder(t, 1, 2, 2)
	now := start.Add(10 * day)
	one, two := crossed.Generations[0], crossed.Generations[1]
	_, next := crossed.tidied(now)
	assert.Equal(t, one.UsedUntil.Add(clockMargin+time.Second), next, "the phase changes")
	tidied, next := crossed.tidied(next)
	assert.False(t, tidied.differs(crossed), "clients that hold only the first root are served a cross by it")
	assert.Equal(t, two.Cross.NotAfter.Add(-endingBefore+time.Second), next, "the chain that is served changes")
	_, next = crossed.tidied(next)
	assert.Equal(t, two.Cross.NotAfter.Add(time.Second), next)
	tidied, _ = crossed.tidied(next)
	assert.Len(t, tidied.Generations, 1)
	assert.Nil(t, tidied.Generations[0].Cross)
}

func TestConfigValidate(t *testing.T) {
	limits := api.DefaultLimits()
	valid := Config{
		Namespace: "servingcert-system", MaxDuration: limits.MaxDuration, Constraints: limits.Constraints(),
		Domain: "cluster.local", Clock: func() time.Time { return start }, ManagedExist: noneManaged,
	}
	require.NoError(t, valid.Validate(), "the defaults go together")
	cases := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no namespace", func(c *Config) { c.Namespace = "" }, "--namespace"},
		{"no name of a namespace", func(c *Config) { c.Namespace = "A_b" }, "--namespace"},
		{"no longest leaf", func(c *Config) { c.MaxDuration = 0 }, "--max-duration"},
		{"a negative CA", func(c *Config) { c.CADuration = -time.Hour }, "--ca-duration"},
		{"a negative soak", func(c *Config) { c.Soak = -time.Second }, "--ca-soak"},
		{"a negative window", func(c *Config) { c.Reissue = -time.Second }, "--ca-reissue-window"},
		{"no cluster domain", func(c *Config) { c.Domain = "" }, "no cluster domain"},
		{"a CA too short by a second", func(c *Config) { c.CADuration = 3*(2160*time.Hour+5*time.Minute) - time.Second }, "--ca-duration: 6480h14m59s: "},
		{"a soak too long", func(c *Config) { c.Soak = 7000 * time.Hour }, "--ca-duration"},
		{"no domain", func(c *Config) { c.Constraints.PermittedDNS = nil }, "no permitted domain"},
		{"no clock", func(c *Config) { c.Clock = nil }, "no clock"},
		{"no way to see Secrets", func(c *Config) { c.ManagedExist = nil }, "managed Secrets"},
	}
	for _, c := range cases {
		config := valid
		c.change(&config)
		assert.ErrorContains(t, config.Validate(), c.want, c.name)
		_, err := New(config)
		assert.ErrorContains(t, err, c.want, c.name)
	}

	short := valid
	short.CADuration = 100 * time.Hour
	err := short.Validate()
	require.Error(t, err)
	for _, part := range []string{"6480h15m0s or more", "--max-duration 2160h0m0s", "soak of 5m0s", "--max-duration 33h15m0s or less"} {
		assert.Contains(t, err.Error(), part, "what is allowed")
	}
	for name, change := range map[string]func(*Config){
		"the CA as it says": func(c *Config) { c.CADuration = 6480*time.Hour + 15*time.Minute },
		"the leaf as it says": func(c *Config) {
			c.CADuration, c.MaxDuration = 100*time.Hour, 33*time.Hour+15*time.Minute
		},
	} {
		fixed := valid
		change(&fixed)
		assert.NoError(t, fixed.Validate(), name)
	}
	assert.NotContains(t, err.Error(), "\n", "one line")
}
