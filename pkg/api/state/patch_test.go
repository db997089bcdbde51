package state

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

// The API server applies the patch to the wanted condition and state, and keeps all others.
func TestPatch(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)
	earlier := metav1.NewTime(now.Add(-24 * time.Hour).Truncate(time.Second))
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	of := func(status metav1.ConditionStatus, reason, message, secret string) *Condition {
		return Say(metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: earlier}, Ready{Secret: secret})
	}
	plain := of(yes, "Issued", "m", "a")
	plain.State = ""
	for name, c := range map[string]struct {
		have, want *Condition
		since      time.Time // of the condition; zero for no write
	}{
		"none, none wanted":         {nil, nil, time.Time{}},
		"the same":                  {of(yes, "Issued", "m", "a"), of(yes, "Issued", "m", "a"), time.Time{}},
		"a first":                   {nil, of(yes, "Issued", "m", "a"), now},
		"another status and reason": {of(no, "CALost", "m", "a"), of(yes, "Issued", "m", "a"), now},
		"another status alone":      {of(no, "R", "m", "a"), of(yes, "R", "m", "a"), now},
		"another message":           {of(yes, "Issued", "m", "a"), of(yes, "Issued", "n", "a"), earlier.Time},
		"another reason":            {of(no, "CALost", "m", "a"), of(no, "CACorrupt", "m", "a"), earlier.Time},
		"another state alone":       {of(yes, "Issued", "m", "a"), of(yes, "Issued", "m", "b"), earlier.Time},
		"without a state":           {plain, of(yes, "Issued", "m", "a"), earlier.Time},
		"none wanted any more":      {of(yes, "Issued", "m", "a"), nil, earlier.Time},
	} {
		t.Run(name, func(t *testing.T) {
			other := Say(metav1.Condition{Type: api.ConditionServing, Status: yes, Reason: "Serving", LastTransitionTime: earlier}, Serving{})
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-web"}}
			svc.Status.Conditions = append(other.Both(), c.have.Both()...)
			patch, err := Patch(svc, api.ConditionReady, c.want, nil, now)
			require.NoError(t, err)
			require.Equal(t, !c.since.IsZero(), patch != nil)
			if patch != nil {
				svc = patched(t, svc, patch)
			}
			assert.Equal(t, types.UID("uid-of-web"), svc.UID)
			assert.True(t, Same(other, Of(svc, api.ConditionServing)), "the others' conditions stay")
			got := Of(svc, api.ConditionReady)
			assert.True(t, Same(c.want, got), "%v", got)
			if patch != nil && c.want != nil {
				assert.True(t, got.LastTransitionTime.Time.Equal(c.since.Truncate(time.Second)), "%s", got.LastTransitionTime)
			}
			again, err := Patch(svc, api.ConditionReady, c.want, nil, now.Add(time.Hour))
			require.NoError(t, err)
			assert.Nil(t, again)
		})
	}
}

func TestPatchOfAnnotations(t *testing.T) {
	svc := with(Say(metav1.Condition{Type: "y", Status: metav1.ConditionTrue}, Ready{}).Both()...)
	svc.UID = "u"
	patch, err := Patch(svc, "y", Of(svc, "y"), map[string]any{"k": "v", "gone": nil}, time.Time{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"metadata":{"uid":"u","annotations":{"k":"v","gone":null}}}`, string(patch))
	patch, err = Patch(svc, "y", nil, nil, time.Time{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"y","$patch":"delete"},{"type":"yState","$patch":"delete"}]}}`, string(patch))
}

// patched applies a strategic merge patch as the API server does.
func patched(t *testing.T, svc *corev1.Service, patch []byte) *corev1.Service {
	document, err := json.Marshal(svc)
	require.NoError(t, err)
	merged, err := strategicpatch.StrategicMergePatch(document, patch, corev1.Service{})
	require.NoError(t, err)
	out := &corev1.Service{}
	require.NoError(t, json.Unmarshal(merged, out))
	return out
}
