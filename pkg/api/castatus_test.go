package api

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawCAMessage(t *rapid.T, reasons []string) CAMessage {
	return CAMessage{rapid.SampledFrom(reasons).Draw(t, "reason"), rapid.StringMatching(`[^\n]{0,60}`).Draw(t, "message")}
}

func drawCAStatus(t *rapid.T) CAStatus {
	text := func(name string) string { return rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, name) }
	number := func(name string) int { return rapid.IntRange(0, maxGeneration).Draw(t, name) }
	moment := func(name string) time.Time {
		if rapid.Bool().Draw(t, name+" is not known") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(0, 1e10).Draw(t, name), 0).UTC()
	}
	count := func(name string) *int { return rapid.Ptr(rapid.IntRange(0, 1e6), true).Draw(t, name) }
	s := CAStatus{
		Bundle: text("bundle"), BundleHash: text("hash"),
		Generation: number("generation"), NextGeneration: number("next"), NewestSeen: number("newest"),
		Phase: rapid.SampledFrom(append(CAPhases(), "")).Draw(t, "phase"),
		Since: moment("since"), NotAfter: moment("not after"),
		Why: text("why"), WaitingFor: text("waiting for"),
		Replaced: count("replaced"), Certificates: count("certificates"),
		Rotation: drawRequest(t), RotationOutcome: drawOutcome(t),
	}
	if rapid.Bool().Draw(t, "problem") {
		s.Problem = drawCAMessage(t, CAProblems())
	}
	for range rapid.IntRange(0, 3).Draw(t, "warnings") {
		s.Warnings = append(s.Warnings, drawCAMessage(t, CAWarnings()))
	}
	s.Generations, s.Imported = drawGenerations(t), text("imported")
	return s
}

func TestCAStatusRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawCAStatus(t)
		require.Equal(t, want, ParseCAStatus(want.Data()))
	})
}

// Any data is read as a status without errors, which formats to the same data again.
func TestParseCAStatusTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := []string{BundleKey, CAGeneration, CANewest, CAPhase, CASince, CANotAfter, CAProblem, CAWarning, CANextGeneration, CAReplaced, CALeaves, CARotation, CARotationOutcome, CAGenerations, CAImported}
		s := ParseCAStatus(rapid.MapOf(rapid.SampledFrom(keys), rapid.String()).Draw(t, "data"))
		require.Equal(t, s.Data(), ParseCAStatus(s.Data()).Data())
	})
}

// Other versions of the signer, the rotator and the CLI read these.
func TestDataOfACAStatus(t *testing.T) {
	seven, three := 7, 3
	assert.Empty(t, CAStatus{}.Data())
	assert.Equal(t, map[string]string{
		"ca.crt": "PEM", "bundle-hash": "aa", "own-ca.crt": "OWN", "own-bundle-hash": "bb", "generation": "2", "next-generation": "3", "newest-seen": "4", "phase": "Wait",
		"since": "2026-03-01T12:00:00Z", "not-after": "2029-03-01T12:00:00Z", "why": "asked for: x", "waiting-for": "trust",
		"certificates": "7", "certificates-replaced": "3", "rotation": "overlap:x", "rotation-outcome": "generation 3 was made and does not sign yet",
		"problem": "CAExpired: over", "warning": "CAEnding: soon\nCAImportInvalid: no: really", "imported": "cc",
	}, CAStatus{
		Bundle: "PEM", BundleHash: "aa", OwnBundle: "OWN", OwnBundleHash: "bb", Generation: 2, NextGeneration: 3, NewestSeen: 4, Phase: PhaseWait,
		Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), NotAfter: time.Date(2029, 3, 1, 13, 0, 0, 0, time.FixedZone("CET", 3600)),
		Why: "asked for: x", WaitingFor: "trust", Certificates: &seven, Replaced: &three,
		Rotation: RotateRequest{RotateOverlap, "x"}, RotationOutcome: RotateOutcome{Generation: 3},
		Problem: CAMessage{CAExpired, "over"}, Warnings: []CAMessage{{CAEnding, "soon"}, {CAImportInvalid, "no: really"}},
		Imported: "cc",
	}.Data())
}

// A warning is one line, whatever it repeats.
func TestAWarningIsOneLine(t *testing.T) {
	s := CAStatus{Warnings: []CAMessage{{CARemoteInvalid, "two\nlines"}}}
	assert.Equal(t, "CARemoteInvalid: two lines", s.Data()[CAWarning])
}

// A person may have written anything into the status.
func TestNumbersInTheStatus(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "two": 0, "-3": 0, "2": 2, "1000000": 1000000, "1000001": 0, strconv.Itoa(math.MaxInt): 0, "99999999999999999999": 0,
	} {
		assert.Equal(t, want, ParseCAStatus(map[string]string{CANewest: text}).NewestSeen, text)
		assert.Equal(t, want, ParseCAStatus(map[string]string{CAGeneration: text}).Generation, text)
	}
}
