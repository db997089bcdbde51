package ca

import (
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
	wider := pki.Constraints{PermittedDNS: []string{"svc", "cluster.local", "apps.example.com"}}
	cases := []struct {
		name    string
		change  func(*Observed)
		action  Action
		reason  string
		message string // a part of it
		warning string // a part of it
	}{
		{name: "a first start", change: func(o *Observed) { o.Secret = nil }, action: ActionCreate},
		{name: "a first start on an empty Secret", change: func(o *Observed) { o.Secret = map[string][]byte{} }, action: ActionCreate},
		{
			name:   "gone, and a status shows that there was a CA",
			change: func(o *Observed) { o.Secret, o.StatusExists = nil, true },
			action: ActionStop, reason: ReasonLost, message: "ConfigMap servingcert-ca-status exists. Restore the Secret",
		},
		{
			name:   "gone, and issued Secrets show it",
			change: func(o *Observed) { o.Secret, o.ManagedExist = nil, true },
			action: ActionStop, reason: ReasonLost, message: "Secrets with issued certificates exist",
		},
		{
			name:   "emptied",
			change: func(o *Observed) { o.Secret, o.StatusExists, o.ManagedExist = map[string][]byte{}, true, true },
			action: ActionStop, reason: ReasonLost, message: "missing or empty",
		},
		{
			name:   "someone else's Secret under the name, at a first start",
			change: func(o *Observed) { o.Secret = map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("x")} },
			action: ActionStop, reason: ReasonCorrupt, message: "state.json: missing",
		},
		{
			name:   "corrupt, whatever else there is",
			change: func(o *Observed) { o.Secret = map[string][]byte{"state.json": []byte("{}")}; o.StatusExists = true },
			action: ActionStop, reason: ReasonCorrupt, message: "Secret servingcert-ca cannot be used",
		},
		{name: "stored", action: ActionLoad},
		{name: "stored, as ever", change: func(o *Observed) { o.StatusExists, o.ManagedExist = true, true }, action: ActionLoad},
		{name: "the clock is behind by less than the backdating", change: func(o *Observed) { o.Now = root.NotBefore }, action: ActionLoad},
		{
			name:   "the clock is behind",
			change: func(o *Observed) { o.Now = root.NotBefore.Add(-time.Second) },
			action: ActionStop, reason: ReasonNotYetValid, message: "is not valid before 2026-03-01T11:55:00Z",
		},
		{name: "a second before the mark is due", change: func(o *Observed) { o.Now = start.Add(day - time.Second) }, action: ActionLoad},
		{name: "the mark is due", change: func(o *Observed) { o.Now = start.Add(day) }, action: ActionRaise},
		{name: "a longer maximum needs a higher mark", change: func(o *Observed) { o.MaxDuration += 2 * day }, action: ActionRaise},
		{name: "a shorter maximum needs none", change: func(o *Observed) { o.MaxDuration = day }, action: ActionLoad},
		{name: "the last second", change: func(o *Observed) { o.Now = root.NotAfter }, action: ActionRaise},
		{
			name:   "expired",
			change: func(o *Observed) { o.Now = root.NotAfter.Add(time.Second) },
			action: ActionStop, reason: ReasonExpired, message: "expired at 2029-02-28T11:55:00Z",
		},
		{
			name:    "the flags permit more",
			change:  func(o *Observed) { o.Wanted = wider },
			action:  ActionLoad,
			warning: "the flags permit apps.example.com, cluster.local, svc and no IP address, and the CA permits cluster.local, svc and no IP address",
		},
		{name: "the flags permit IPs", change: func(o *Observed) { o.Wanted.PermitIPs = true }, action: ActionLoad, warning: "cluster.local, svc and IP addresses"},
		{name: "the flags in another order", change: func(o *Observed) { o.Wanted.PermittedDNS = []string{"svc", "cluster.local", "svc"} }, action: ActionLoad},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := Observed{Secret: stored, Wanted: clusterOnly, MaxDuration: maxDuration, Now: start}
			if c.change != nil {
				c.change(&o)
			}
			d := Decide(o)
			assert.Equal(t, c.action, d.Action)
			assert.Equal(t, c.reason, d.Reason)
			assert.Contains(t, d.Message, c.message)
			assert.Equal(t, c.action == ActionStop, d.Message != "", "a message, exactly if signing stops")
			assert.Contains(t, d.Warning, c.warning)
			assert.Equal(t, c.warning != "", d.Warning != "")
			assert.Equal(t, c.action == ActionRaise, d.Raised != nil)
			later := o
			later.Now = o.Now.Add(time.Second)
			if d.Action == Decide(later).Action {
				assert.Equal(t, d.Message, Decide(later).Message, "a message that changes with the time is a write each time")
			}
		})
	}
}

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
		o := Observed{
			Secret: data, Wanted: clusterOnly, MaxDuration: maxDuration,
			StatusExists: rapid.Bool().Draw(t, "status"), ManagedExist: rapid.Bool().Draw(t, "managed"),
			Now: start.Add(time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(t, "now")) * time.Second),
		}
		d := Decide(o)
		if d.Action == ActionCreate {
			require.Empty(t, data, "something is overwritten")
			require.False(t, o.StatusExists || o.ManagedExist, "there was a CA")
		}
		if d.Action == ActionLoad || d.Action == ActionRaise {
			require.NoError(t, pki.CheckCA(d.State.signing().Root, d.State.signing().Key, o.Now))
		}
	})
}

func TestNextIsWhenTheDecisionChanges(t *testing.T) {
	stored := secretData(t, first(t))
	o := Observed{Secret: stored, Wanted: clusterOnly, MaxDuration: maxDuration, Now: start}
	d := Decide(o)
	require.Equal(t, ActionLoad, d.Action)
	o.Now = d.Next.Add(-time.Second)
	assert.Equal(t, ActionLoad, Decide(o).Action)
	o.Now = d.Next
	assert.Equal(t, ActionRaise, Decide(o).Action)

	end := first(t)
	end.Generations[0].UsedUntil = end.Generations[0].Root.NotAfter
	o = Observed{Secret: secretData(t, end), Wanted: clusterOnly, MaxDuration: maxDuration, Now: end.Generations[0].Root.NotAfter}
	d = Decide(o)
	require.Equal(t, ActionLoad, d.Action)
	o.Now = d.Next
	assert.Equal(t, ReasonExpired, Decide(o).Reason)

	o.Now = end.Generations[0].Root.NotBefore.Add(-time.Hour)
	d = Decide(o)
	require.Equal(t, ReasonNotYetValid, d.Reason)
	o.Now = d.Next
	assert.Equal(t, ActionLoad, Decide(o).Action)

	crossed := ladder(t, 1, 2, 2)
	crossed.Generations[1].UsedUntil = crossed.Generations[1].Root.NotAfter
	o = Observed{Secret: secretData(t, crossed), Wanted: clusterOnly, MaxDuration: maxDuration, Now: start.Add(10 * day)}
	assert.Equal(t, crossed.Generations[1].Cross.NotAfter.Add(time.Second), Decide(o).Next, "the chain that is served changes")
}

func TestConfigValidate(t *testing.T) {
	limits := api.DefaultLimits()
	valid := Config{
		Namespace: "servingcert-system", MaxDuration: limits.MaxDuration, Constraints: limits.Constraints(),
		Clock: func() time.Time { return start }, ManagedExist: noneManaged,
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
		{"a negative soak", func(c *Config) { c.Soak = -time.Second }, "soak"},
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
