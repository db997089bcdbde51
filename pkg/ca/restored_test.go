package ca

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// published makes the status after a decision the input of the next.
func (s *script) published() map[string]string {
	s.Helper()
	data := Decide(s.Situation).Status.Data()
	published := api.ParseCAStatus(data)
	s.Status = &published
	return data
}

// A Secret from before a succession is recognized until the next generation, which does
// not take a number that was used.
func TestRestoredFromBefore(t *testing.T) {
	s := newScript(t)
	before := s.Secret
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	waiting := s.Secret
	s.published()
	s.promote()
	s.published()
	s.ask("", "")

	s.Secret = before
	for range 3 {
		d := s.take("")
		require.Len(t, d.Warnings, 1)
		assert.Equal(t, api.CARestored, d.Warnings[0].Reason)
		assert.Contains(t, d.Warnings[0].Message, "is 1, but the status recorded generation 2")
		assert.Contains(t, s.published()[api.CAWarning], api.CARestored)
	}
	s.ask(api.RotateOverlap, "again")
	s.take(StepPrepare)
	assert.Equal(t, 3, s.state().Newest().Number)
	assert.Empty(t, Decide(s.Situation).Warnings)

	s.Secret = waiting
	s.Status = &api.CAStatus{Generation: 2}
	d := s.take(StepTrusted)
	require.Len(t, d.Warnings, 1)
	assert.Contains(t, d.Warnings[0].Message, "signs with generation 1, but the status recorded that generation 2 signed")
	s.published()
	assert.Empty(t, Decide(s.Situation).Warnings, "2 is known, and is to sign")
}

// The status may know of generations in two ways; neither is a generation without it.
func TestGenerationsThatTheStatusHasSeen(t *testing.T) {
	s := newScript(t)
	assert.Zero(t, s.newestSeen())
	assert.Zero(t, s.lastSigned())
	for text, want := range map[string]int{"": 1, "two": 1, "2": 2, "1000001": 1} {
		status := api.ParseCAStatus(map[string]string{api.CAGeneration: "1", api.CANewest: text})
		s.Status = &status
		assert.Equal(t, want, s.newestSeen(), text)
		assert.Equal(t, 1, s.lastSigned(), text)
	}
}
