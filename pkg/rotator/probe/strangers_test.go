package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/rotatortest"
)

// All strangers have to be refused. The first that is not ends the attempt, and a port that still serves the same
// certificate costs one handshake.
func TestStrangersTryInOrder(t *testing.T) {
	at := rotatortest.Noon
	for name, tt := range map[string]struct {
		guard  Guard
		first  Outcome
		others map[Stranger]Judgement
		tries  []Stranger
		want   *Guarding
	}{
		"all refused":       {Guard{Plaintext: true}, Outcome{Judgement: Refused}, map[Stranger]Judgement{Forged: Refused, InPlaintext: Refused}, []Stranger{Forged, InPlaintext}, &Guarding{Judgement: Refused}},
		"TLS only":          {Guard{}, Outcome{Judgement: Refused}, map[Stranger]Judgement{Forged: Refused}, []Stranger{Forged}, &Guarding{Judgement: Refused}},
		"without one":       {Guard{Leaf: "a"}, Outcome{Judgement: Admitted}, nil, nil, &Guarding{Judgement: Admitted, Stranger: NoCertificate}},
		"forged":            {Guard{Plaintext: true, Leaf: "b"}, Outcome{Judgement: Refused}, map[Stranger]Judgement{Forged: Admitted}, []Stranger{Forged}, &Guarding{Judgement: Admitted, Stranger: Forged}},
		"plaintext":         {Guard{Plaintext: true}, Outcome{Judgement: Refused}, map[Stranger]Judgement{Forged: Refused, InPlaintext: Admitted}, []Stranger{Forged, InPlaintext}, &Guarding{Judgement: Admitted, Stranger: InPlaintext}},
		"not seen":          {Guard{}, Outcome{Judgement: Refused}, map[Stranger]Judgement{Forged: ""}, []Stranger{Forged}, &Guarding{Stranger: Forged, Cause: CauseReset}},
		"no answer":         {Guard{}, Outcome{Kind: NoAnswer, Cause: CauseTimeout}, nil, nil, &Guarding{Stranger: NoCertificate, Cause: CauseTimeout}},
		"the same leaf":     {Guard{Leaf: "a"}, Outcome{Judgement: Refused}, nil, nil, nil},
		"lately, a new one": {Guard{Leaf: "b"}, Outcome{Judgement: Refused}, map[Stranger]Judgement{Forged: Refused}, []Stranger{Forged}, &Guarding{Judgement: Refused}},
	} {
		t.Run(name, func(t *testing.T) {
			var tries []Stranger
			tt.guard.Admits = "list"
			got := tt.guard.Try(at, "a", tt.first, func(who Stranger) (Judgement, Cause) {
				tries = append(tries, who)
				return tt.others[who], CauseReset
			})
			if tt.want != nil {
				tt.want.At, tt.want.Since, tt.want.Admits, tt.want.Leaf = at, at, "list", "a"
			}
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.tries, tries)
		})
	}
}

func TestMergeKeepsWhatIsKnownOfStrangers(t *testing.T) {
	answer := func(after time.Duration, g *Guarding) []Answer {
		at := rotatortest.Noon.Add(after)
		if g != nil {
			g.At, g.Since = at, at
		}
		return []Answer{{Port: 1, At: at, Guarding: g}}
	}
	known := Merge(nil, answer(0, &Guarding{Judgement: Refused, Admits: "a"}))
	known = Merge(known, answer(time.Minute, nil))
	require.NotNil(t, known[0].Guarding, "nothing new")
	known = Merge(known, answer(2*time.Minute, &Guarding{Judgement: Refused, Admits: "a"}))
	assert.Equal(t, rotatortest.Noon, known[0].Guarding.Since)
	assert.Equal(t, rotatortest.Noon.Add(2*time.Minute), known[0].Guarding.At)
	known = Merge(known, answer(3*time.Minute, &Guarding{Judgement: Refused, Admits: "b"}))
	assert.Equal(t, rotatortest.Noon.Add(3*time.Minute), known[0].Guarding.Since)
}

// A port that is not dialled has refused nobody, and what was seen before does not stay.
func TestWhatIsNotDialledIsNotRefused(t *testing.T) {
	at := rotatortest.Noon
	v := Target{Ports: []uint16{1, 2}, Guards: map[uint16]Guard{1: {Admits: "a"}}}
	known := Merge(nil, []Answer{{Port: 1, At: at, Guarding: &Guarding{At: at, Since: at, Judgement: Refused, Admits: "a"}}})
	known = Merge(known, v.Unverified(at.Add(time.Hour), CauseOutside))
	require.Len(t, known, 2)
	later := at.Add(time.Hour)
	assert.Equal(t, &Guarding{At: later, Since: later, Stranger: NoCertificate, Cause: CauseOutside, Admits: "a"}, known[0].Guarding)
	assert.Nil(t, known[1].Guarding, "no stranger was to try there")
}
