package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func status(annotations map[string]string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{Data: map[string]string{api.CAGeneration: "1", api.CAPhase: api.PhaseStable}}
	cm.Annotations = annotations
	for i := 0; i+1 < len(data); i += 2 {
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

func TestDecideRequest(t *testing.T) {
	var (
		overlap  = api.RotateRequest{Mode: api.RotateOverlap, Reason: "drill"}
		distrust = api.RotateRequest{Mode: api.RotateDistrust, Reason: "stolen"}
		replace  = api.RotateRequest{Mode: api.RotateReplaceLost, Reason: "gone"}
		other    = api.RotateRequest{Mode: api.RotateOverlap, Reason: "ceremony"}
	)
	lost := []string{api.CAProblem, "CALost: Secret servingcert-ca is missing"}
	for name, c := range map[string]struct {
		cm      *corev1.ConfigMap
		wanted  api.RotateRequest
		verdict requestVerdict
		err     string
	}{
		"nothing asked for": {status(nil), overlap, requestVerdict{write: true}, ""},
		"answered": {
			status(overlap.Annotations(), api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and signs"), overlap,
			requestVerdict{over: true, says: "asked for before; generation 2 was made and signs\nStable: generation 1 signs\n"}, "",
		},
		"answered, and the annotation is gone": {
			status(nil, api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and signs"), overlap,
			requestVerdict{over: true, says: "asked for before; generation 2 was made and signs\nStable: generation 1 signs\n"}, "",
		},
		"answered, and on its way": {
			status(overlap.Annotations(), api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and does not sign yet", api.CAPhase, api.PhaseWait), overlap,
			requestVerdict{says: "asked for before; generation 2 was made and does not sign yet\n"}, "",
		},
		"answered, and certificates are being replaced": {
			status(nil, api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and signs", api.CAPhase, api.PhaseRetire, api.CALeaves, "3", api.CAReplaced, "2"), overlap,
			requestVerdict{says: "asked for before; generation 2 was made and signs\n"}, "",
		},
		"refused before": {
			status(nil, api.CARotation, "overlap:drill", api.CARotationOutcome, "refused: at most 3 cross-certificates are served"), overlap,
			requestVerdict{}, "asked for before; refused: at most 3 cross-certificates are served",
		},
		"the same reason in another way is another request": {
			status(overlap.Annotations(), api.CARotation, "overlap:drill"), api.RotateRequest{Mode: api.RotateForce, Reason: "drill"}, requestVerdict{write: true}, "",
		},
		"asked for, not answered": {status(overlap.Annotations()), overlap, requestVerdict{says: "asked for before, and not answered yet\n"}, ""},
		"asked for in no way is overlap": {
			status(map[string]string{api.AnnotationRotate: "drill"}), overlap, requestVerdict{says: "asked for before, and not answered yet\n"}, "",
		},
		"another is open": {
			status(other.Annotations(), api.CAPhase, api.PhaseWait, api.CANextGeneration, "2", api.CAWaitingFor, "1 of 2 targets hold the new root"), overlap, requestVerdict{},
			`another rotation was asked for and is not answered yet (overlap "ceremony"): wait for it. Wait: generation 1 signs, 2 is to follow; 1 of 2 targets hold the new root`,
		},
		"another was answered": {status(other.Annotations(), api.CARotation, "overlap:ceremony"), overlap, requestVerdict{write: true}, ""},
		"another that is wrong will not be answered": {
			status(map[string]string{api.AnnotationRotate: "x", api.AnnotationRotateMode: "sideways"}), overlap, requestVerdict{write: true}, "",
		},
		"a stolen key does not wait": {
			status(other.Annotations(), api.CAPhase, api.PhaseWait), distrust,
			requestVerdict{write: true, says: "this takes the place of overlap \"ceremony\", which was not answered yet\n"}, "",
		},
		"lost": {status(nil, lost...), replace, requestVerdict{write: true}, ""},
		"lost again": {
			status(replace.Annotations(), append(lost, api.CARotation, replace.String())...), replace,
			requestVerdict{}, "of an earlier loss; this one takes another --reason. CALost: Secret servingcert-ca is missing",
		},
		"corrupt":                        {status(nil, api.CAProblem, "CACorrupt: x"), replace, requestVerdict{write: true}, ""},
		"neither":                        {status(nil), replace, requestVerdict{}, "--replace-lost is for a CA that is lost or corrupt, and this one is neither: Stable: generation 1 signs"},
		"a lost one has no successor":    {status(nil, lost...), overlap, requestVerdict{}, "there is no CA that could be succeeded: CALost: Secret servingcert-ca is missing"},
		"nor is its key of any use":      {status(nil, lost...), distrust, requestVerdict{}, "there is no CA that could be succeeded: CALost"},
		"an expired one has a successor": {status(nil, api.CAProblem, "CAExpired: x"), overlap, requestVerdict{write: true}, ""},
		"expired":                        {status(nil, api.CAProblem, "CAExpired: x"), replace, requestVerdict{}, "this one is neither: Stable: generation 1 signs; problem: CAExpired: x"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decideRequest(c.cm, c.wanted)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.verdict, got)
		})
	}
}

func TestProgress(t *testing.T) {
	for want, data := range map[string]map[string]string{
		"no generation signs; problem: CALost: x": {api.CAProblem: "CALost: x"},
		"Stable: generation 3 signs":              {api.CAPhase: api.PhaseStable, api.CAGeneration: "3"},
		"Wait: generation 3 signs, 4 is to follow; 37 of 40 targets hold the new root": {
			api.CAPhase: api.PhaseWait, api.CAGeneration: "3", api.CANextGeneration: "4", api.CAWaitingFor: "37 of 40 targets hold the new root"},
		"Reissue: generation 4 signs, 12 of 40 certificates are signed by it": {
			api.CAPhase: api.PhaseReissue, api.CAGeneration: "4", api.CAReplaced: "12", api.CALeaves: "40"},
	} {
		assert.Equal(t, want, parseCA(data).progress())
	}
}

func TestStatusesAreParsedAsFarAsTheyAre(t *testing.T) {
	assert.Equal(t, caStatus{}, parseCA(nil))
	assert.Equal(t, caStatus{}, parseCA(map[string]string{api.CAGeneration: "two", api.CASince: "yesterday", api.CALeaves: "many"}))
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := parseCA(map[string]string{api.CASince: "2026-03-01T12:00:00Z", api.CAReplaced: "0", api.CAWarning: "A: b\nC: d"})
	assert.Equal(t, &since, s.Since)
	require.NotNil(t, s.Replaced, "none is a count")
	assert.Equal(t, []string{"A: b", "C: d"}, s.Warnings)
	assert.Equal(t, trustStatus{BundleHash: "aa", Targets: 3, Holding: 1, Pending: 1, Refusing: 1, NotHolding: []string{"x", "y"}}, parseTrust(map[string]string{
		api.TrustBundleHash: "aa", api.TrustTargets: "3", api.TrustHolding: "1", api.TrustPending: "1", api.TrustRefusing: "1", api.TrustNotHolding: "x\ny"}))
}

func TestNamedIsBounded(t *testing.T) {
	assert.Equal(t, "  things: none\n", named("things", nil))
	assert.Equal(t, "  things: 2: a, b\n", named("things", []string{"b", "a"}))
	many := make([]string, 1000)
	for i := range many {
		many[i] = "n"
	}
	assert.Contains(t, named("things", many), " and 980 more\n")
}

// A certificate issued in the second of the request is older than the request.
func TestRenewAfterIsAWholeSecondLater(t *testing.T) {
	second := time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC)
	for _, now := range []time.Time{second, second.Add(time.Nanosecond), second.Add(time.Second - 1)} {
		assert.Equal(t, second.Add(time.Second), renewAfter(now))
	}
}

func TestAgreedIsYesOnATerminal(t *testing.T) {
	for answer, yes := range map[string]bool{"yes\n": true, "yes\r\n": true, "yes": true, "y\n": false, "no\n": false, "\n": false, "": false, "YES\n": false} {
		var out strings.Builder
		err := agreed(streams{in: strings.NewReader(answer), out: &out, terminal: true})
		assert.Equal(t, yes, err == nil, "%q", answer)
		assert.Equal(t, "Type yes to go on: ", out.String())
	}
	err := agreed(streams{in: strings.NewReader("yes\n"), out: io.Discard})
	assert.ErrorContains(t, err, "standard input is no terminal; --yes goes on without asking")
}
