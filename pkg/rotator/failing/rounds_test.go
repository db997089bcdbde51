package failing

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// operated is a pod of that age, controlled by the Cluster of an operator.
func operated(name string, age time.Duration, changes ...rotatortest.Change) *pods.Facts {
	return pod(name, "", age, func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(noon.Add(-age))
		p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("postgresql.cnpg.io/v1", "Cluster", "db")}
	}, rotatortest.All(changes...))
}

func TestCounts(t *testing.T) {
	ofDeployment := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "ReplicaSet", "web-hash")}
	}
	bare := func(p *corev1.Pod) { p.OwnerReferences = nil }
	for name, tt := range map[string]struct {
		before, after *pods.Facts
		want          bool
	}{
		"young":               {operated("db-1", shortLife-time.Second), operated("db-1", shortLife-time.Second, deleted), true},
		"no more":             {operated("db-1", shortLife), operated("db-1", shortLife, deleted), false},
		"not deleted":         {operated("db-1", 0), operated("db-1", 0), false},
		"already counted":     {operated("db-1", 0, deleted), operated("db-1", 0, deleted), false},
		"new":                 {nil, operated("db-1", 0, deleted), false},
		"gone, or ended well": {operated("db-1", 0), nil, false},
		"of a Deployment":     {operated("db-1", 0, ofDeployment), operated("db-1", 0, ofDeployment, deleted), false},
		"bare":                {operated("db-1", 0, bare), operated("db-1", 0, bare, deleted), false},
		"not injected":        {operated("db-1", 0), operated("db-1", 0, deleted, rotatortest.Label(api.LabelInjected, "")), false},
	} {
		assert.Equal(t, tt.want, Counts(tt.before, tt.after, noon), name)
	}
}

func TestOperatorThatDeletesInjectedPods(t *testing.T) {
	s := Situation{Now: noon, Services: []*corev1.Service{rotatortest.Service("web", "web-tls")}, Rounds: Rounds{}}
	for i := range minRepeats - 1 {
		s.Rounds.Add(operated("db-1", 0), noon.Add(time.Duration(i)*time.Minute))
	}
	s.Now = noon.Add(time.Minute)
	d := Decide(s)
	assert.Empty(t, d.Conditions)
	assert.Equal(t, forget, d.After)

	s.Rounds.Add(operated("db-1", 0), s.Now)
	d = Decide(s)
	const want = "3 or more of its injected pods were deleted within 5m0s after their creation; if its operator does not accept the injection, label the pod template servingcert.dev/inject: disabled, which omits everything"
	require.Len(t, d.Conditions, 1)
	assert.Equal(t, metav1.Condition{Type: api.ConditionPodsHealthy, Status: metav1.ConditionFalse, Reason: api.PodsDeleted, Message: "Cluster db: " + want}, d.Conditions[0].Want.Condition)
	require.Len(t, d.Notify, 1)
	assert.Equal(t, api.PodsDeleted, d.Notify[0].Reason)
	assert.Equal(t, want, d.Notify[0].Text)
	s = written(s, d)
	s.Rounds.Add(operated("db-1", 0), s.Now)
	assert.Empty(t, Decide(s).Notify)
	assert.Empty(t, Decide(s).Conditions)

	s.Pods = []*pods.Facts{pod("web-1", "web", time.Hour)}
	d = Decide(s)
	assert.Equal(t, api.PodsFailing, d.Conditions[0].Want.Reason, "the more specific reason")
	assert.Equal(t, 2, d.Failing, "two workloads")

	s.Pods, s.Now = nil, s.Now.Add(forget)
	s.Rounds.Forget(s.Now)
	d = Decide(s)
	require.Len(t, d.Conditions, 1)
	assert.Nil(t, d.Conditions[0].Want)
}

func TestRoundsAreFew(t *testing.T) {
	r := Rounds{}
	add := func(i int, now time.Time) {
		r.Add(operated("db-1", 0, func(p *corev1.Pod) { p.OwnerReferences[0].Name = fmt.Sprint("db", i) }), now)
	}
	for i := range 2 * maxRounds {
		add(i, noon)
	}
	assert.Len(t, r, maxRounds)
	add(0, noon)
	add(0, noon.Add(forget-1))
	add(2*maxRounds, noon.Add(forget))
	assert.Len(t, r, 2, "the others are old")
	assert.Contains(t, fmt.Sprint(r), "db0")
}
