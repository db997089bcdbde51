package controller

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func servingPatch(svc *corev1.Service, want *state.Condition, now time.Time) ([]byte, error) {
	return state.Patch(svc, api.ConditionServing, want, nil, now)
}

func TestServingPatch(t *testing.T) {
	now := rotatortest.Noon.Add(time.Hour)
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	apply := func(want *state.Condition) *corev1.Service {
		patch, err := servingPatch(svc, want, now)
		require.NoError(t, err)
		require.NotNil(t, patch)
		var parsed map[string]any
		require.NoError(t, json.Unmarshal(patch, &parsed))
		assert.Equal(t, map[string]any{"uid": "uid-of-web"}, parsed["metadata"])
		before, err := json.Marshal(svc)
		require.NoError(t, err)
		after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Service{})
		require.NoError(t, err)
		patched := &corev1.Service{}
		require.NoError(t, json.Unmarshal(after, patched))
		assert.Equal(t, svc.Status.LoadBalancer, patched.Status.LoadBalancer)
		assert.Equal(t, api.Condition(svc, api.ConditionReady), api.Condition(patched, api.ConditionReady))
		return patched
	}
	says := func(status metav1.ConditionStatus, message string) *state.Condition {
		return state.Say(metav1.Condition{Type: api.ConditionServing, Status: status, Reason: "R", Message: message}, state.Serving{})
	}
	svc = apply(says(metav1.ConditionTrue, "a"))
	assert.True(t, api.Condition(svc, api.ConditionServing).LastTransitionTime.Time.Equal(now))

	patch, err := servingPatch(svc, says(metav1.ConditionTrue, "a"), now)
	require.NoError(t, err)
	assert.Nil(t, patch, "it is equal")

	now = now.Add(time.Hour)
	svc = apply(says(metav1.ConditionTrue, "b"))
	assert.True(t, api.Condition(svc, api.ConditionServing).LastTransitionTime.Time.Equal(now.Add(-time.Hour)), "the status is the same")
	svc = apply(says(metav1.ConditionFalse, "b"))
	assert.True(t, api.Condition(svc, api.ConditionServing).LastTransitionTime.Time.Equal(now))

	svc = apply(nil)
	assert.Nil(t, api.Condition(svc, api.ConditionServing))
	patch, err = servingPatch(svc, nil, now)
	require.NoError(t, err)
	assert.Nil(t, patch)
}
