package ca

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// publishedAfter returns the status that follows, as the API server returns it.
func publishedAfter(o Situation, s State, at time.Time, before *api.CAStatus) *api.CAStatus {
	o.Now, o.Status, o.LastStatus = at, before, nil
	status := api.ParseCAStatus(statusOf(o, Decision{State: &s}).Data())
	return &status
}

func TestHistoryIsWhatTheSecretSays(t *testing.T) {
	s := generations(t, 1, 2, 2)
	g := &s.Generations[1]
	g.Why, g.Origin, g.TrustedAt = "requested: x", OriginImport, g.MadeAt.Add(time.Minute)
	history := publishedAfter(situation(nil), s, start, nil).Generations
	require.Len(t, history, 2)
	assert.Equal(t, api.CAGenerationRecord{
		Number: 2, Origin: api.OriginImported, Root: pki.Fingerprint(g.Root), Why: "requested: x",
		MadeAt: g.MadeAt, TrustedAt: g.TrustedAt, SignsSince: g.SignsSince, UsedUntil: g.UsedUntil, NotAfter: g.Ends(),
	}, history[1])
}

// A generation that has left the CA Secret stays in the history, with the time when that
// was first observed.
func TestHistoryOfWhatTheSecretForgot(t *testing.T) {
	o, s := situation(nil), generations(t, 1, 3, 3)
	seen := publishedAfter(o, s, start, nil)
	s.Generations[0].Retired = true
	s.Generations = s.Generations[:2:2] // the third was abandoned
	s.Signing = 2
	noon := start.Add(day + 500*time.Millisecond)
	after := publishedAfter(o, s, noon, seen)
	require.Len(t, after.Generations, 3)
	retired, abandoned := after.Generations[0], after.Generations[2]
	assert.True(t, retired.Retired && abandoned.Retired && !after.Generations[1].Retired)
	assert.Equal(t, []time.Time{start.Add(day), start.Add(day)}, []time.Time{retired.RetiredAt, abandoned.RetiredAt})

	later := publishedAfter(o, s, noon.Add(time.Hour), after)
	assert.Equal(t, after.Data(), later.Data(), "nothing has changed, so nothing is written")

	another := generations(t, 1, 3, 3) // the number is used again
	s.Generations = append(s.Generations, another.Generations[2])
	again := publishedAfter(o, s, noon.Add(2*time.Hour), later)
	require.Len(t, again.Generations, 4)
	assert.Equal(t, []bool{true, false}, []bool{again.Generations[2].Retired, again.Generations[3].Retired}, "the one before, and the one of now")
}

// A forged history has no effect while the signer runs, and one that was written before
// it started does not override the Secret.
func TestHistoryThatSomebodyChanged(t *testing.T) {
	o, s := situation(nil), generations(t, 1, 1, 1)
	last := publishedAfter(o, s, start, nil)
	changed := *last
	lie := last.Generations[0]
	lie.Retired, lie.RetiredAt, lie.SignsSince = true, start, start.Add(-day)
	changed.Generations = []api.CAGenerationRecord{lie}
	assert.Equal(t, last.Data(), publishedAfter(o, s, start.Add(day), &changed).Data())

	o.Now, o.Status, o.LastStatus = start, &changed, &api.CAStatus{}
	assert.Equal(t, last.Data()[api.CAGenerations], statusOf(o, Decision{State: &s}).Data()[api.CAGenerations])
}

// A retirement that no process observed has no time.
func TestHistoryOfAnUpgrade(t *testing.T) {
	s := generations(t, 1, 2, 2)
	s.Generations[0].Retired = true
	history := publishedAfter(situation(nil), s, start, &api.CAStatus{Generation: 2}).Generations
	assert.True(t, history[0].Retired)
	assert.Zero(t, history[0].RetiredAt)
}

// While the CA is lost its history stays.
func TestHistoryOfALostCA(t *testing.T) {
	s := generations(t, 1, 2, 2)
	before := publishedAfter(situation(nil), s, start, nil)
	o := situation(nil)
	o.Status = before
	assert.Equal(t, before.Generations, statusOf(o, Decision{Problem: api.CAMessage{Reason: api.CALost, Message: "gone"}}).Generations)
	o.LastStatus = before
	fresh := first(t)
	fresh.Generations[0].Number, fresh.Signing = 3, 3
	replaced := publishedAfter(situation(nil), fresh, start.Add(day), before).Generations
	require.Len(t, replaced, 3)
	assert.Equal(t, []bool{true, true, false}, []bool{replaced[0].Retired, replaced[1].Retired, replaced[2].Retired})
}

// However long a forged history is, the generations of the Secret have room.
func TestInventedHistoryLeavesRoomForTheRealOne(t *testing.T) {
	o, s := situation(nil), generations(t, 1, 3, 3)
	invented := &api.CAStatus{}
	for n := range 2 * api.MaxCAGenerations {
		invented.Generations = append(invented.Generations, api.CAGenerationRecord{Number: 900_000 + n, Origin: api.OriginOwn, Root: pki.Fingerprint(s.Generations[0].Root)})
	}
	history := publishedAfter(o, s, start, invented).Generations
	require.Len(t, history, api.MaxCAGenerations)
	for i, g := range s.Generations {
		assert.Equal(t, pki.Fingerprint(g.Root), history[i].Root)
		assert.Equal(t, g.Number, history[i].Number)
	}
}
