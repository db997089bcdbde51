package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseRotateRequest(t *testing.T) {
	annotations := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	ask := func(pairs ...string) RotateRequest {
		r, err := ParseRotateRequest(annotations(pairs...))
		require.NoError(t, err)
		return r
	}
	assert.Equal(t, RotateRequest{}, ask())
	assert.Equal(t, RotateRequest{}, ask(AnnotationRotateMode, "force"), "a mode alone asks for nothing")
	assert.Equal(t, RotateRequest{Mode: RotateOverlap, Reason: "x"}, ask(AnnotationRotate, "x"))
	assert.Equal(t, RotateRequest{Mode: RotateDistrust, Reason: "x"}, ask(AnnotationRotate, "x", AnnotationRotateMode, "distrust-now"))
	assert.Equal(t, 3, PromoteDespite(annotations(AnnotationPromoteDespite, "3")))
	assert.Zero(t, PromoteDespite(annotations(AnnotationPromoteDespite, "all")))
	for reason, want := range map[string]string{"two\nlines": "one line", string(make([]byte, 201)): "longer than 200"} {
		r, err := ParseRotateRequest(annotations(AnnotationRotate, reason))
		assert.ErrorContains(t, err, want)
		assert.Zero(t, r, "it asks for nothing")
	}
	_, err := ParseRotateRequest(annotations(AnnotationRotate, "x", AnnotationRotateMode, "soon"))
	assert.EqualError(t, err, `servingcert.dev/rotate-mode: "soon": must be overlap, force, distrust-now, replace-lost`)
}

// drawRequest draws what ParseRotateRequest may return.
func drawRequest(t *rapid.T) RotateRequest {
	if rapid.Bool().Draw(t, "nothing is asked for") {
		return RotateRequest{}
	}
	return RotateRequest{rapid.SampledFrom(rotateModes()).Draw(t, "mode"), rapid.StringMatching(`[^\x00-\x1f]{1,50}`).Draw(t, "reason")}
}

func TestRotateRequestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		got, err := ParseRotateRequest(want.Annotations())
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, want, parseRotation(want.String()))

		n := rapid.IntRange(0, maxGeneration).Draw(t, "generation")
		require.Equal(t, n, PromoteDespite(PromoteDespiteAnnotations(n)))
	})
}

func drawOutcome(t *rapid.T) RotateOutcome {
	switch rapid.IntRange(0, 2).Draw(t, "outcome") {
	case 0:
		return RotateOutcome{}
	case 1:
		return RotateOutcome{Refused: true, Why: rapid.String().Draw(t, "why")}
	}
	return RotateOutcome{Generation: rapid.IntRange(1, maxGeneration).Draw(t, "made"), Signs: rapid.Bool().Draw(t, "signs")}
}

func TestRotateOutcomeRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawOutcome(t)
		require.Equal(t, want, parseRotateOutcome(want.String()))
	})
}

// Other versions of the signer and of its clients read these.
func TestTextsOfRotations(t *testing.T) {
	assert.Equal(t, "overlap:key ceremony", RotateRequest{RotateOverlap, "key ceremony"}.String())
	assert.Equal(t, RotateRequest{RotateForce, "a:b"}, parseRotation("force:a:b"))
	assert.Zero(t, parseRotation("overlap"))
	for text, o := range map[string]RotateOutcome{
		"": {},
		"refused: the CA is neither lost nor corrupt": {Refused: true, Why: "the CA is neither lost nor corrupt"},
		"generation 2 was made and does not sign yet": {Generation: 2},
		"generation 2 was made and signs":             {Generation: 2, Signs: true},
	} {
		assert.Equal(t, text, o.String())
		assert.Equal(t, o, parseRotateOutcome(text))
	}
	assert.Zero(t, parseRotateOutcome("made"))
}
