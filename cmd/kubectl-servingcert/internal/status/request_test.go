package status

import (
	"testing"

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
		verdict RequestDecision
		err     string
	}{
		"nothing asked for": {status(nil), overlap, RequestDecision{Write: true}, ""},
		"answered": {
			status(overlap.Annotations(), api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and signs"), overlap,
			RequestDecision{Over: true, Text: "already requested; generation 2 was made and signs\nStable: generation 1 signs\n"}, "",
		},
		"answered, and the annotation is gone": {
			status(nil, api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and signs"), overlap,
			RequestDecision{Over: true, Text: "already requested; generation 2 was made and signs\nStable: generation 1 signs\n"}, "",
		},
		"answered, and on its way": {
			status(overlap.Annotations(), api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and does not sign yet", api.CAPhase, api.PhaseWait), overlap,
			RequestDecision{Text: "already requested; generation 2 was made and does not sign yet\n"}, "",
		},
		"answered, and certificates are being replaced": {
			status(nil, api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and signs", api.CAPhase, api.PhaseRetire, api.CALeaves, "3", api.CAReplaced, "2"), overlap,
			RequestDecision{Text: "already requested; generation 2 was made and signs\n"}, "",
		},
		"refused before": {
			status(nil, api.CARotation, "overlap:drill", api.CARotationOutcome, "refused: at most 3 cross-certificates are served"), overlap,
			RequestDecision{}, "already requested; refused: at most 3 cross-certificates are served",
		},
		"the same reason in another way is another request": {
			status(overlap.Annotations(), api.CARotation, "overlap:drill"), api.RotateRequest{Mode: api.RotateForce, Reason: "drill"}, RequestDecision{Write: true}, "",
		},
		"asked for, not answered": {status(overlap.Annotations()), overlap, RequestDecision{Text: "already requested, and not answered yet\n"}, ""},
		"asked for in no way is overlap": {
			status(map[string]string{api.AnnotationRotate: "drill"}), overlap, RequestDecision{Text: "already requested, and not answered yet\n"}, "",
		},
		"another is open": {
			status(other.Annotations(), api.CAPhase, api.PhaseWait, api.CANextGeneration, "2", api.CAWaitingFor, "1 of 2 targets hold the new root"), overlap, RequestDecision{},
			`another rotation was requested and is not answered yet (overlap "ceremony"): wait for it. Wait: generation 1 signs, generation 2 is next; 1 of 2 targets hold the new root`,
		},
		"another was answered": {status(other.Annotations(), api.CARotation, "overlap:ceremony"), overlap, RequestDecision{Write: true}, ""},
		"another goes on": {
			status(other.Annotations(), api.CARotation, "overlap:ceremony", api.CAPhase, api.PhaseWait, api.CANextGeneration, "2", api.CAWaitingFor, "1 of 2 targets hold the new root"), overlap,
			RequestDecision{Write: true, Text: "this rotation is queued until generation 2 signs. Wait: generation 1 signs, generation 2 is next; 1 of 2 targets hold the new root\n"}, "",
		},
		"a stolen key does not wait for another that goes on": {
			status(nil, api.CARotation, "overlap:ceremony", api.CAPhase, api.PhaseWait, api.CANextGeneration, "2"), distrust, RequestDecision{Write: true}, "",
		},
		"another that is wrong will not be answered": {
			status(map[string]string{api.AnnotationRotate: "x", api.AnnotationRotateMode: "sideways"}), overlap, RequestDecision{Write: true}, "",
		},
		"a stolen key does not wait": {
			status(other.Annotations(), api.CAPhase, api.PhaseWait), distrust,
			RequestDecision{Write: true, Text: "this replaces request overlap \"ceremony\", which was not answered yet\n"}, "",
		},
		"lost": {status(nil, lost...), replace, RequestDecision{Write: true}, ""},
		"lost again": {
			status(replace.Annotations(), append(lost, api.CARotation, replace.String())...), replace,
			RequestDecision{}, "for an earlier loss: give another --reason. CALost: Secret servingcert-ca is missing",
		},
		"corrupt":                         {status(nil, api.CAProblem, "CACorrupt: x"), replace, RequestDecision{Write: true}, ""},
		"neither":                         {status(nil), replace, RequestDecision{}, "--replace-lost: the CA is neither lost nor corrupt: Stable: generation 1 signs"},
		"a lost one has no successor":     {status(nil, lost...), overlap, RequestDecision{}, "there is no CA to rotate: CALost: Secret servingcert-ca is missing"},
		"nor has one that cannot be read": {status(nil, api.CAProblem, "CANewerVersion: x"), overlap, RequestDecision{}, "there is no CA to rotate: CANewerVersion"},
		"nor is it lost":                  {status(nil, api.CAProblem, "CANewerVersion: x"), replace, RequestDecision{}, "the CA is neither lost nor corrupt"},
		"nor is its key of any use":       {status(nil, lost...), distrust, RequestDecision{}, "there is no CA to rotate: CALost"},
		"an expired one has a successor":  {status(nil, api.CAProblem, "CAExpired: x"), overlap, RequestDecision{Write: true}, ""},
		"expired":                         {status(nil, api.CAProblem, "CAExpired: x"), replace, RequestDecision{}, "the CA is neither lost nor corrupt: Stable: generation 1 signs; problem: CAExpired: x"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecideRequest(c.cm, c.wanted)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.verdict, got)
		})
	}
}
