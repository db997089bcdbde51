package restart

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// A rejected restart is tried again later, and an old restart cannot count as reverted.
func TestOldRestartsAreForgotten(t *testing.T) {
	m := NewState()
	web := staleOf(webWorkload)
	start, err := Situation{Now: restartNow, Stale: []serving.StaleWorkload{web}}.start(web)
	assert.NoError(t, err)
	m.Refused("shop", web, "no", restartNow)
	m.Put("shop", Decision{Start: start}, true)
	for _, tt := range []struct {
		after             time.Duration
		refused, restarts int
	}{{0, 1, 1}, {refusedFor * testLimits.Retry, 1, 1}, {refusedFor*testLimits.Retry + 1, 0, 1}, {rememberRestarts, 0, 1}, {rememberRestarts + 1, 0, 0}} {
		history := m.Situation("shop", testLimits, restartNow.Add(tt.after)).history
		assert.Len(t, history.refused, tt.refused, tt.after)
		assert.Len(t, history.restarted, tt.restarts, tt.after)
	}
	m.Put("shop", Decision{}, false)
	assert.Empty(t, m.namespaces, "what nothing is known of takes no room")
}

// A failed restart frees its place.
func TestFailedRestartFreesItsPlace(t *testing.T) {
	web := staleOf(webWorkload)
	s, a := situationOf(web), answersFor(web)
	d := a.decide(t, s)
	assert.JSONEq(t, `{"metadata": {"uid": "", "resourceVersion": "7"},
		"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-03-01T12:00:00Z"}}}}}`, string(d.Start.Patch))
	m := NewState()
	m.Put("shop", d, false)
	assert.Empty(t, m.Totals().Places)
	assert.Zero(t, m.Totals().Started)
	m.Put("shop", d, true)
	assert.Equal(t, []string{"shop"}, m.Totals().Places)
	assert.Equal(t, 1, m.Totals().Started)
	assert.False(t, m.Situation("shop", testLimits, restartNow).first)
	assert.True(t, m.Situation("other", testLimits, restartNow).first, "what may be rolling out there is read")
}

// Rollouts count as stuck if this process restarted them; holds are counted by namespace.
func TestTotals(t *testing.T) {
	m := NewState()
	m.Put("shop", Decision{
		rollouts: map[pods.Workload]rollout{{Name: "a"}: {stuck: true, ours: true}, {Name: "b"}: {stuck: true}, {Name: "c"}: {ours: true}},
		Held:     []Held{{Hold: holdTurn}, {Hold: holdTurn}, {Hold: holdOff}},
	}, false)
	totals := m.Totals()
	assert.Equal(t, map[string]int{"shop": 1}, totals.Stuck)
	assert.Equal(t, map[string]map[Hold]int{"shop": {holdTurn: 2, holdOff: 1}}, totals.Held)
}

// Bare pods are distinguished by the first of them, those of a workload are not.
func TestKeyOf(t *testing.T) {
	one, other := staleOf(webWorkload), staleOf(webWorkload)
	other.Pod = "another"
	assert.Equal(t, KeyOf(one), KeyOf(other))
	one.Workload, other.Workload = pods.Workload{}, pods.Workload{}
	assert.NotEqual(t, KeyOf(one), KeyOf(other))
}

func TestServiceStatusOf(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	assert.Equal(t, ServiceStatus{true, rotatortest.Leaf(2)}, ServiceStatusOf(svc))
	svc.Status.Conditions[0].Status = metav1.ConditionFalse
	assert.False(t, ServiceStatusOf(svc).Ready)
	assert.Zero(t, ServiceStatusOf(rotatortest.Service("web", "web-tls")))
}
