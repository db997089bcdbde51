package ca

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// published takes what the status says after a decision for what it says at the
// next.
func (s *script) published() map[string]string {
	s.Helper()
	data := statusData(s.Observed, Decide(s.Observed), nil, nil)
	s.seen(&corev1.ConfigMap{Data: data})
	return data
}

// A Secret from before a succession is seen to be one as long as it is, and the
// next generation does not take a number that was used.
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
		assert.Equal(t, WarnRestored, d.Warnings[0].Reason)
		assert.Contains(t, d.Warnings[0].Message, "knows 1 as the newest generation, and the status has seen 2")
		assert.Contains(t, s.published()[api.CAWarning], WarnRestored)
	}
	s.ask(api.RotateOverlap, "again")
	s.take(StepPrepare)
	assert.Equal(t, 3, s.state().newest().Number)
	assert.Empty(t, Decide(s.Observed).Warnings)

	s.Secret = waiting
	s.StatusGeneration, s.StatusSigns = 2, 2
	d := s.take(StepTrusted)
	require.Len(t, d.Warnings, 1)
	assert.Contains(t, d.Warnings[0].Message, "says that generation 1 signs, and the status has seen 2 sign")
	s.published()
	assert.Empty(t, Decide(s.Observed).Warnings, "2 is known, and is to sign")
}

// A person may have written anything into the status.
func TestNumbersInTheStatus(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "two": 0, "-3": 0, "2": 2, "1000000": 1000000, "1000001": 0, strconv.Itoa(math.MaxInt): 0, "99999999999999999999": 0,
	} {
		s := newScript(t)
		s.seen(&corev1.ConfigMap{Data: map[string]string{api.CAGeneration: "1", api.CANewest: text}})
		assert.Equal(t, max(1, want), s.StatusGeneration, text)
		s.seen(&corev1.ConfigMap{Data: map[string]string{api.CAGeneration: text}})
		assert.Equal(t, want, s.StatusSigns, text)
		assert.Equal(t, want, s.StatusGeneration, text)
	}
}
