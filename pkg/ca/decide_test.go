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
	asks := func(mode api.RotateMode) func(*Situation) {
		return func(o *Situation) { o.Request = api.RotateRequest{Mode: mode, Reason: "stolen"} }
	}
	lost := func(o *Situation) { o.Secret, o.Status = nil, &api.CAStatus{Generation: 4} }
	cases := []struct {
		name    string
		change  func(*Situation)
		step    StepKind
		reason  string
		message string // a part of it
		warning string // a part of it
	}{
		{name: "a first start", change: func(o *Situation) { o.Secret = nil }, step: StepFresh, reason: api.CAPending},
		{name: "a first start on an empty Secret", change: func(o *Situation) { o.Secret = map[string][]byte{} }, step: StepFresh, reason: api.CAPending},
		{name: "a first start by a wrong clock", change: func(o *Situation) { o.Secret, o.ClockErr = nil, errors.New("3m ahead") }, reason: api.CAClockSkew, message: "3m ahead"},
		{
			name:   "gone, and a status shows that there was a CA",
			change: func(o *Situation) { o.Secret, o.Status = nil, &api.CAStatus{} },
			reason: api.CALost, message: "ConfigMap servingcert-ca-status exists. Restore the Secret",
		},
		{
			name:   "gone, and issued Secrets show it",
			change: func(o *Situation) { o.Secret, o.ManagedExist = nil, true },
			reason: api.CALost, message: "Secrets with issued certificates exist",
		},
		{
			// What showed it may be damaged or deleted a moment later.
			name:   "gone, and an interim CA shows that it was",
			change: func(o *Situation) { o.Secret, o.Interim = nil, map[string][]byte{"state.json": []byte("{}")} },
			reason: api.CALost, message: "Secret servingcert-interim-ca exists",
		},
		{
			name:   "emptied",
			change: func(o *Situation) { o.Secret, o.Status, o.ManagedExist = map[string][]byte{}, &api.CAStatus{}, true },
			reason: api.CALost, message: "missing or empty",
		},
		{name: "gone, and a person gives it up", change: func(o *Situation) { lost(o); asks(api.RotateReplaceLost)(o) }, step: StepFresh, reason: api.CALost},
		{name: "gone, and a person asks for something else", change: func(o *Situation) { lost(o); asks(api.RotateForce)(o) }, reason: api.CALost},
		{name: "gone, and a person distrusts it", change: func(o *Situation) { lost(o); asks(api.RotateDistrust)(o) }, reason: api.CALost},
		{
			name:   "someone else's Secret under the name, at a first start",
			change: func(o *Situation) { o.Secret = map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("x")} },
			reason: api.CACorrupt, message: "state.json: missing",
		},
		{
			name: "corrupt, whatever else there is",
			change: func(o *Situation) {
				o.Secret = map[string][]byte{"state.json": []byte("{}")}
				o.Status = &api.CAStatus{}
			},
			reason: api.CACorrupt, message: "Secret servingcert-ca cannot be used",
		},
		{
			name: "corrupt, and a person gives it up",
			change: func(o *Situation) {
				o.Secret = map[string][]byte{"state.json": []byte("{}")}
				asks(api.RotateReplaceLost)(o)
			},
			step: StepFresh, reason: api.CACorrupt,
		},
		{
			name: "written by a newer version, and a person gives it up",
			change: func(o *Situation) {
				o.Secret = map[string][]byte{"state.json": []byte(`{"version": 2, "signs": {"x": [1]}}`)}
				asks(api.RotateReplaceLost)(o)
			},
			reason: api.CANewerVersion, message: "state.json: was written by a newer version of servingcert: its format is 2, and this version reads format 1. Install that version again",
		},
		{
			name: "written by a version that knows more",
			change: func(o *Situation) {
				o.Secret = map[string][]byte{"state.json": []byte(`{"version": 1, "signing": 1, "generations": [{"number": 1, "colour": "red"}]}`)}
			},
			reason: api.CANewerVersion, message: "it has a field that this version does not know",
		},
		{name: "stored"},
		{name: "stored, as ever", change: func(o *Situation) { o.Status, o.ManagedExist = &api.CAStatus{}, true }},
		{name: "the clock is behind by less than the backdating", change: func(o *Situation) { o.Now = root.NotBefore }},
		{
			name:   "the clock is behind",
			change: func(o *Situation) { o.Now = root.NotBefore.Add(-time.Second) },
			reason: api.CANotYetValid, message: "is not valid before 2026-03-01T11:55:00Z",
		},
		{name: "a second before the mark is due", change: func(o *Situation) { o.Now = start.Add(day - time.Second) }},
		{name: "the mark is due", change: func(o *Situation) { o.Now = start.Add(day) }, step: StepRaise},
		{name: "the mark is due, and the clock is wrong", change: func(o *Situation) { o.Now, o.ClockErr = start.Add(day), errors.New("3m ahead") }},
		{name: "a longer maximum needs a higher mark", change: func(o *Situation) { o.MaxDuration += 2 * day }, step: StepRaise},
		{name: "a shorter maximum needs none", change: func(o *Situation) { o.MaxDuration = day }},
		{name: "the last hour", change: func(o *Situation) { o.Now = late }, step: StepRaise},
		{
			name:   "expired",
			change: func(o *Situation) { o.Now = root.NotAfter.Add(time.Second) },
			step:   StepRaise, reason: api.CAExpired, message: "expired at 2029-02-28T11:55:00Z",
		},
		{name: "the flags permit more", change: func(o *Situation) { o.Constraints = wider }, step: StepPrepare},
		{name: "the flags permit IPs", change: func(o *Situation) { o.Constraints.PermitIPs = true }, step: StepPrepare},
		{name: "the flags permit less", change: func(o *Situation) { o.Constraints.PermittedDNS = []string{"svc"} }},
		{name: "the flags in another order", change: func(o *Situation) { o.Constraints.PermittedDNS = []string{"svc", "cluster.local", "svc"} }},
		{name: "asked for", change: asks(api.RotateOverlap), step: StepPrepare},
		{name: "asked for with force", change: asks(api.RotateForce), step: StepPrepare},
		{name: "distrusted", change: asks(api.RotateDistrust), step: StepFresh},
		{name: "not lost", change: asks(api.RotateReplaceLost), step: StepRefuse},
		{name: "asked for, and the clock is wrong", change: func(o *Situation) { asks(api.RotateDistrust)(o); o.ClockErr = errors.New("3m ahead") }},
		{name: "no such mode", change: func(o *Situation) {
			o.Request, o.RequestErr = api.ParseRotateRequest(map[string]string{api.AnnotationRotate: "x", api.AnnotationRotateMode: "soon"})
		}, warning: `RotationInvalid: servingcert.dev/rotate-mode: "soon": must be overlap, force, distrust-now, replace-lost`},
		{name: "the Secret is older than the status", change: func(o *Situation) { o.Status = &api.CAStatus{NewestSeen: 2} }, warning: "CARestored: the newest generation in Secret servingcert-ca is 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := situation(stored)
			if c.change != nil {
				c.change(&o)
			}
			d := Decide(o)
			assert.Equal(t, c.step, d.Step.Kind)
			assert.Equal(t, c.reason, d.Problem.Reason)
			assert.Contains(t, d.Problem.Message, c.message)
			assert.Equal(t, c.reason != "", d.Problem.Message != "", "a message, exactly if signing stops")
			assert.Equal(t, c.warning != "", len(d.Warnings) > 0)
			if c.warning != "" {
				assert.Contains(t, d.Warnings[0].Reason+": "+d.Warnings[0].Message, c.warning)
			}
			later := o
			later.Now = o.Now.Add(time.Second)
			if d.Problem.Reason == Decide(later).Problem.Reason {
				assert.Equal(t, d.Problem.Message, Decide(later).Problem.Message, "a message that changes with the time is a write each time")
			}
			if d.Step.Kind != "" {
				next := o
				next.Secret = secretData(t, applied(t, o))
				assert.NotEqual(t, d.Step, Decide(next).Step, "a step is taken once")
			}
		})
	}
}

// Until a mark is raised that is too low for the longest leaf, none may be signed that long.
func TestAMarkThatIsRaisedFirst(t *testing.T) {
	o := situation(secretData(t, first(t)))
	o.Now = start.Add(day)
	require.Equal(t, StepRaise, Decide(o).Step.Kind)
	assert.False(t, Decide(o).RaiseFirst, "it is still high enough")
	o.MaxDuration += 2 * day
	require.Equal(t, StepRaise, Decide(o).Step.Kind)
	assert.True(t, Decide(o).RaiseFirst)
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
		o := situation(data)
		o.ManagedExist = rapid.Bool().Draw(t, "managed")
		if rapid.Bool().Draw(t, "status") {
			o.Status = &api.CAStatus{}
		}
		o.Now = start.Add(time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(t, "now")) * time.Second)
		o.Request = api.RotateRequest{Mode: rapid.SampledFrom([]api.RotateMode{"", api.RotateOverlap, api.RotateForce}).Draw(t, "mode"), Reason: rapid.SampledFrom([]string{"", "x"}).Draw(t, "reason")}
		d := Decide(o)
		if d.Step.Kind == StepFresh {
			require.Empty(t, data, "something is overwritten")
			require.False(t, o.Status != nil || o.ManagedExist, "there was a CA")
		}
		if d.Problem.Reason == "" {
			require.NoError(t, pki.CheckCA(d.State.signing().Root, d.State.signing().Key, o.Now))
		}
	})
}

func TestNextIsWhenTheDecisionChanges(t *testing.T) {
	quiet := func(o Situation) Decision {
		d := Decide(o)
		require.Empty(t, d.Step)
		return d
	}
	o := situation(secretData(t, first(t)))
	d := quiet(o)
	o.Now = d.Next.Add(-time.Second)
	quiet(o)
	o.Now = d.Next
	assert.Equal(t, StepRaise, Decide(o).Step.Kind)

	end := first(t)
	end.Generations[0].UsedUntil = end.Generations[0].Root.NotAfter
	o = situation(secretData(t, end))
	d = quiet(o)
	third := end.Generations[0].Root.NotAfter.Add(-DefaultCADuration / 3)
	assert.Equal(t, third, d.Next)
	o.Now = third.Add(-time.Second)
	quiet(o)
	o.Now = third
	assert.Equal(t, StepPrepare, Decide(o).Step.Kind)

	o.Now = end.Generations[0].Root.NotBefore.Add(-time.Hour)
	d = quiet(o)
	require.Equal(t, api.CANotYetValid, d.Problem.Reason)
	o.Now = d.Next
	assert.Empty(t, Decide(o).Problem.Reason)

	crossed := generations(t, 1, 2, 2)
	now := start.Add(10 * day)
	one, two := crossed.Generations[0], crossed.Generations[1]
	_, next := tidied(crossed, now)
	assert.Equal(t, one.UsedUntil.Add(clockMargin+time.Second), next, "the phase changes")
	after, next := tidied(crossed, next)
	assert.False(t, differ(after, crossed), "clients that hold only the first root are served a cross by it")
	assert.Equal(t, two.Cross.NotAfter.Add(-endingBefore+time.Second), next, "the chain that is served changes")
	_, next = tidied(crossed, next)
	assert.Equal(t, two.Cross.NotAfter.Add(time.Second), next)
	after, _ = tidied(crossed, next)
	assert.Len(t, after.Generations, 1)
	assert.Nil(t, after.Generations[0].Cross)
}
