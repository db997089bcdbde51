package rotator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

func deploymentNamed(name string) Workload {
	return Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
}

// crowdOf is a crowd of Deployment NAME with one pod in each state.
func crowdOf(svc *corev1.Service, name string, states ...State) crowd {
	c := crowd{workload: deploymentNamed(name), onRotate: api.OnRotateReload, services: []*corev1.Service{svc}, states: map[State]int{}}
	for _, s := range states {
		c.states[s]++
	}
	return c
}

func TestServingCondition(t *testing.T) {
	fresh := ready("web", leafNo(2))
	same := serves(ready("web", leafNo(2)), leafNo(2), noon)
	older := serves(ready("web", leafNo(2)), leafNo(1), noon.Add(-time.Hour))
	other := ready("other", leafNo(2))
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	restart := func(c crowd) crowd {
		c.onRotate = api.OnRotateRestart
		return c
	}
	tests := []struct {
		name   string
		svc    *corev1.Service
		crowds []crowd
		absent time.Duration
		status metav1.ConditionStatus // empty: undecided
		reason string
		words  string
	}{
		{"nobody mounts it", fresh, nil, 0, no, api.ServingNoConsumers, `no ready pod of this Service mounts the key of Secret "web-tls" (leaf`},
		{"nobody does any more", same, nil, 29 * time.Second, "", "", ""},
		{"nobody did for a while", same, nil, 30 * time.Second, no, api.ServingNoConsumers, ""},
		{"nobody, and a new certificate", older, nil, 0, no, api.ServingNoConsumers, ""},
		{"none is ready", fresh, []crowd{crowdOf(fresh, "web", StateNotReady)}, 0, no, api.ServingNoConsumers, ""},
		{"those of another Service", fresh, []crowd{crowdOf(other, "web", StateCurrent)}, 0, no, api.ServingNoConsumers, ""},

		{"all current", fresh, []crowd{crowdOf(fresh, "web", StateCurrent, StateCurrent)}, 0, yes, api.ServingCurrent, `every ready pod of this Service that mounts Secret "web-tls" serves its certificate (leaf`},
		{"all but one that is not ready", same, []crowd{crowdOf(same, "web", StateCurrent, StateNotReady)}, 0, yes, api.ServingCurrent, ""},
		{"all but one that cannot be asked", same, []crowd{crowdOf(same, "web", StateCurrent), crowdOf(same, "job", StateNoPort)}, 0, yes, api.ServingCurrent, ""},
		{"all but one that is new", same, []crowd{crowdOf(same, "web", StateCurrent, stateNew)}, 0, yes, api.ServingCurrent, ""},
		{"none can be asked", same, []crowd{crowdOf(same, "web", StateNoPort)}, 0, unknown, api.ServingNoPort, "nothing tells a TCP port"},

		{"none was asked", fresh, []crowd{crowdOf(fresh, "web", StatePending)}, 0, no, api.ServingPropagating, ""},
		{"none was asked again", same, []crowd{crowdOf(same, "web", StatePending)}, 0, "", "", ""},
		{"none was asked since it changed", older, []crowd{crowdOf(older, "web", StatePending)}, 0, no, api.ServingPropagating, `a new certificate is in Secret "web-tls"`},
		{"the first pods", fresh, []crowd{crowdOf(fresh, "web", stateNew)}, 0, no, api.ServingPropagating, "no pod of this Service was asked"},
		{"the first pods after a time without", same, []crowd{crowdOf(same, "web", stateNew)}, 0, "", "", ""},
		{"one was not asked again", same, []crowd{crowdOf(same, "web", StatePending, StateCurrent)}, 0, "", "", ""},
		{"on its way", same, []crowd{crowdOf(same, "web", StatePropagating, StateCurrent)}, 0, no, api.ServingPropagating, ""},
		{"on its way to some", same, []crowd{crowdOf(same, "web", StatePropagating, StateStale)}, 0, no, api.ServingPropagating, ""},

		{"stale", same, []crowd{crowdOf(same, "web", StateStale, StateCurrent), crowdOf(same, "api", StateCurrent)}, 0, no, api.ServingStale, `an older certificate than the one in Secret "web-tls" is still served by Deployment web: what does not reload its files must be restarted`},
		{"stale, others pending", same, []crowd{crowdOf(same, "web", StateStale, StatePending)}, 0, no, api.ServingStale, ""},
		{"stale, and restarted", same, []crowd{restart(crowdOf(same, "web", StateStale))}, 0, no, api.ServingStale, "served by Deployment web; they are restarted, as servingcert.dev/on-rotate asks, or an event says why not"},
		{"stale, one restarted", same, []crowd{restart(crowdOf(same, "web", StateStale)), crowdOf(same, "api", StateStale)}, 0, no, api.ServingStale, "Deployment api, Deployment web: what does not"},
		{"foreign", same, []crowd{crowdOf(same, "web", StateForeign, StateCurrent, StatePlaintext)}, 0, no, api.ServingForeign, `another certificate than the one in Secret "web-tls" is served by Deployment web: a mesh's proxy`},
		{"plaintext", same, []crowd{crowdOf(same, "web", StatePlaintext, StateUnreachable)}, 0, no, api.ServingPlaintext, "no TLS is spoken at the port of Deployment web (leaf"},
		{"unreachable", same, []crowd{crowdOf(same, "web", StateUnreachable, StateCurrent)}, 0, unknown, api.ServingUnreachable, "no answer from Deployment web: the port is closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := servingCondition(tt.svc, "web-tls", tt.crowds, cert2, testPace, tt.absent)
			if tt.status == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, string(tt.status)+" "+tt.reason, string(got.Status)+" "+got.Reason)
			assert.Contains(t, got.Message, tt.words)
			facts, ok := api.ServingOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: []metav1.Condition{*got}}})
			assert.True(t, ok)
			assert.Equal(t, leafNo(2), facts.Leaf)
			assert.Equal(t, noon, facts.Since)
		})
	}
}

func TestAConditionNamesFewWorkloadsInOneOrder(t *testing.T) {
	svc := ready("web", leafNo(2))
	var crowds []crowd
	for i := range 9 {
		for range 3 { // as the pods of a StatefulSet, which have a template each
			crowds = append(crowds, crowdOf(svc, fmt.Sprintf("w%d", i), StateStale))
		}
	}
	want := servingCondition(svc, "web-tls", crowds, cert2, testPace, 0).Message
	assert.Contains(t, want, "by Deployment w0, Deployment w1, Deployment w2, Deployment w3, Deployment w4 and 4 more: ")
	assert.NotContains(t, want, "27")
	for range 20 {
		rand.Shuffle(len(crowds), func(i, j int) { crowds[i], crowds[j] = crowds[j], crowds[i] })
		assert.Equal(t, want, servingCondition(svc, "web-tls", crowds, cert2, testPace, 0).Message)
	}
	bare := crowdOf(svc, "", StateStale)
	bare.workload = Workload{}
	assert.Contains(t, servingCondition(svc, "web-tls", []crowd{bare}, cert2, testPace, 0).Message, "served by pods that no workload made: ")
}

func TestNobodyLooks(t *testing.T) {
	assert.Nil(t, notVerified(ready("web", leafNo(2))), "nothing was said")
	svc := serves(ready("web", leafNo(2)), leafNo(2), noon)
	want := notVerified(svc)
	require.NotNil(t, want)
	assert.Equal(t, "Unknown NotVerified", string(want.Status)+" "+want.Reason)
	svc.Status.Conditions[1] = *want
	assert.Nil(t, notVerified(svc), "once")
	facts, ok := api.ServingOf(svc)
	assert.True(t, ok && facts.Leaf == leafNo(2) && facts.Since.Equal(noon), "for when somebody looks again")
}

func TestServingPatch(t *testing.T) {
	now := noon.Add(time.Hour)
	svc := ready("web", leafNo(2))
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
	svc := serves(ready("web", leafNo(2)), leafNo(1), noon)
	svc.ResourceVersion = "99"
	wrote := &metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent, Message: "new"}
	f := followed{wrote: map[types.UID]wroteServing{svc.UID: {condition: wrote, version: 100}}}
	got := f.asWritten(svc)
	assert.Equal(t, wrote, api.Condition(got, api.ConditionServing))
	assert.NotNil(t, api.Condition(got, api.ConditionReady))
	assert.Contains(t, api.Condition(svc, api.ConditionServing).Message, leafNo(1), "the cache's object is left alone")

	f.wrote[svc.UID] = wroteServing{version: 100}
	assert.Nil(t, api.Condition(f.asWritten(svc), api.ConditionServing), "it was taken away")
	svc.ResourceVersion = "100"
	assert.Same(t, svc, f.asWritten(svc), "the cache has seen it")
}
