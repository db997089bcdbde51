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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func servingPatch(svc *corev1.Service, want *metav1.Condition, now time.Time) ([]byte, error) {
	return api.ConditionPatch(svc.UID, api.ConditionServing, api.Condition(svc, api.ConditionServing), want, nil, now)
}

func TestServingPatch(t *testing.T) {
	now := rotatortest.Noon.Add(time.Hour)
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	apply := func(want *metav1.Condition) *corev1.Service {
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
	says := func(status metav1.ConditionStatus, message string) *metav1.Condition {
		return &metav1.Condition{Type: api.ConditionServing, Status: status, Reason: "R", Message: message}
	}
	svc = apply(says(metav1.ConditionTrue, "a"))
	assert.True(t, api.Condition(svc, api.ConditionServing).LastTransitionTime.Time.Equal(now))

	patch, err := servingPatch(svc, says(metav1.ConditionTrue, "a"), now)
	require.NoError(t, err)
	assert.Nil(t, patch, "that is what it says")

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

func TestWhatWasWrittenIsNotWrittenAgain(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(1), rotatortest.Noon)
	svc.ResourceVersion = "99"
	wrote := &metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent, Message: "new"}
	now := func() time.Time { return rotatortest.Noon }
	r := &reconciler{cluster: &cluster.Cluster{Config: cluster.Config{Now: now}}, written: facts.NewWritten[*metav1.Condition]()}
	key := client.ObjectKeyFromObject(svc)
	r.written.Put(key, "100", wrote, rotatortest.Noon)
	got := r.asWritten(svc)
	assert.Equal(t, wrote, api.Condition(got, api.ConditionServing))
	assert.NotNil(t, api.Condition(got, api.ConditionReady))
	assert.Contains(t, api.Condition(svc, api.ConditionServing).Message, rotatortest.Leaf(1), "the cache's object is left alone")

	r.written.Put(key, "100", nil, rotatortest.Noon)
	assert.Nil(t, api.Condition(r.asWritten(svc), api.ConditionServing), "it was removed")
	svc.ResourceVersion = "100"
	assert.Same(t, svc, r.asWritten(svc), "the cache has seen it")
}
