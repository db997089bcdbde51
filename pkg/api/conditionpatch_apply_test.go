package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/servingcert/servingcert/pkg/api"
)

// What the API server makes of the patch: the condition wanted, beside the others'.
func TestConditionPatchApplied(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)
	earlier := metav1.NewTime(now.Add(-24 * time.Hour).Truncate(time.Second))
	of := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: earlier}
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	since := func(c *metav1.Condition, at time.Time) *metav1.Condition {
		out := *c
		out.LastTransitionTime = metav1.NewTime(at.Truncate(time.Second))
		return &out
	}
	for name, c := range map[string]struct {
		have, want *metav1.Condition
		result     *metav1.Condition
		writes     bool
	}{
		"none, none wanted":         {nil, nil, nil, false},
		"the same":                  {of(yes, "Issued", "m"), since(of(yes, "Issued", "m"), now), of(yes, "Issued", "m"), false},
		"a first":                   {nil, of(yes, "Issued", "m"), since(of(yes, "Issued", "m"), now), true},
		"another status and reason": {of(no, "CALost", "m"), of(yes, "Issued", "m"), since(of(yes, "Issued", "m"), now), true},
		"another status alone":      {of(no, "R", "m"), of(yes, "R", "m"), since(of(yes, "R", "m"), now), true},
		"another message":           {of(yes, "Issued", "m"), of(yes, "Issued", "n"), of(yes, "Issued", "n"), true},
		"another reason":            {of(no, "CALost", "m"), of(no, "CACorrupt", "m"), of(no, "CACorrupt", "m"), true},
		"none wanted any more":      {of(yes, "Issued", "m"), nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := api.ConditionPatch("uid-of-web", api.ConditionReady, c.have, c.want, nil, now)
			require.NoError(t, err)
			require.Equal(t, c.writes, patch != nil)
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-web"}}
			other := metav1.Condition{Type: api.ConditionServing, Status: yes, Reason: "Serving", LastTransitionTime: earlier}
			svc.Status.Conditions = []metav1.Condition{other}
			if c.have != nil {
				svc.Status.Conditions = append(svc.Status.Conditions, *c.have)
			}
			if patch != nil {
				svc = patchedService(t, svc, patch)
			}
			assert.Equal(t, types.UID("uid-of-web"), svc.UID)
			assert.Equal(t, &other, normal(api.Condition(svc, api.ConditionServing)), "the others' conditions stay")
			assert.Equal(t, normal(c.result), normal(api.Condition(svc, api.ConditionReady)))
		})
	}
}

func normal(c *metav1.Condition) *metav1.Condition {
	if c == nil {
		return nil
	}
	out := *c
	out.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC())
	return &out
}

// patchedService applies a strategic merge patch as the API server does.
func patchedService(t *testing.T, svc *corev1.Service, patch []byte) *corev1.Service {
	document, err := json.Marshal(svc)
	require.NoError(t, err)
	merged, err := strategicpatch.StrategicMergePatch(document, patch, corev1.Service{})
	require.NoError(t, err)
	out := &corev1.Service{}
	require.NoError(t, json.Unmarshal(merged, out))
	return out
}
