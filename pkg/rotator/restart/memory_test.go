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

// What is remembered ends: a restart that was refused is tried again, and what was
// restarted long ago is not what somebody reverts today.
func TestWhatIsForgotten(t *testing.T) {
	m := NewMemory()
	web := staleOf(webWorkload)
	start, err := Situation{Now: restartNow, Stale: []serving.StaleWorkload{web}}.start(web)
	assert.NoError(t, err)
	m.Refused("shop", web, "no", restartNow)
	m.Put("shop", Decision{Start: start}, true)
	for _, tt := range []struct {
		after             time.Duration
		refused, restarts int
	}{{0, 1, 1}, {refusedFor * testLimits.Retry, 1, 1}, {refusedFor*testLimits.Retry + 1, 0, 1}, {rememberRestarts, 0, 1}, {rememberRestarts + 1, 0, 0}} {
		memory := m.Situation("shop", testLimits, restartNow.Add(tt.after)).memory
		assert.Len(t, memory.refused, tt.refused, tt.after)
		assert.Len(t, memory.restarted, tt.restarts, tt.after)
	}
	m.Put("shop", Decision{}, false)
	assert.Empty(t, m.namespaces, "what nothing is known of takes no room")
}

// A restart that did not take place gives its place back.
func TestARestartThatFailed(t *testing.T) {
	web := staleOf(webWorkload)
	s, a := situationOf(web), answersFor(web)
	d := a.decide(t, s)
	assert.JSONEq(t, `{"metadata": {"uid": "", "resourceVersion": "7"},
		"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-03-01T12:00:00Z"}}}}}`, string(d.Start.Patch))
	m := NewMemory()
	m.Put("shop", d, false)
	assert.Empty(t, m.Totals().Places)
	assert.Zero(t, m.Totals().Started)
	m.Put("shop", d, true)
	assert.Equal(t, []string{"shop"}, m.Totals().Places)
	assert.Equal(t, 1, m.Totals().Started)
	assert.False(t, m.Situation("shop", testLimits, restartNow).first)
	assert.True(t, m.Situation("other", testLimits, restartNow).first, "what may be rolling out there is read")
}

// Rollouts count as stuck where this process restarted them; what holds others is counted by namespace.
func TestTotals(t *testing.T) {
	m := NewMemory()
	m.Put("shop", Decision{
		rollouts: map[pods.Workload]rollout{{Name: "a"}: {stuck: true, ours: true}, {Name: "b"}: {stuck: true}, {Name: "c"}: {ours: true}},
		Held:     []Held{{Hold: holdTurn}, {Hold: holdTurn}, {Hold: holdOff}},
	}, false)
	totals := m.Totals()
	assert.Equal(t, map[string]int{"shop": 1}, totals.Stuck)
	assert.Equal(t, map[string]map[Hold]int{"shop": {holdTurn: 2, holdOff: 1}}, totals.Held)
}

// Pods of no workload are told apart by the first of them, those of a workload are not.
func TestKeyOf(t *testing.T) {
	one, other := staleOf(webWorkload), staleOf(webWorkload)
	other.Pod = "another"
	assert.Equal(t, KeyOf(one), KeyOf(other))
	one.Workload, other.Workload = pods.Workload{}, pods.Workload{}
	assert.NotEqual(t, KeyOf(one), KeyOf(other))
}

func TestServiceStandingOf(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	assert.Equal(t, ServiceStanding{true, rotatortest.Leaf(2)}, ServiceStandingOf(svc))
	svc.Status.Conditions[0].Status = metav1.ConditionFalse
	assert.False(t, ServiceStandingOf(svc).Ready)
	assert.Zero(t, ServiceStandingOf(rotatortest.Service("web", "web-tls")))
}
