package collect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// TestPodsOfStatefulSetsAndDaemonSetsThatAreRefused: only events name the cause. The newest counts, while pods are missing.
func TestPodsOfStatefulSetsAndDaemonSetsThatAreRefused(t *testing.T) {
	two, noon := int32(2), time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	event := func(name, kind, of, reason, message string, age time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "shop", Name: of, UID: types.UID(of)},
			Reason: reason, Type: corev1.EventTypeWarning, Message: message, LastTimestamp: metav1.NewTime(noon.Add(-age)),
		}
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}
	}
	former := event("h", "StatefulSet", "db", "FailedCreate", "of a former one", time.Second)
	former.InvolvedObject.UID = "before"
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}},
		&appsv1.StatefulSet{ObjectMeta: meta("db"), Spec: appsv1.StatefulSetSpec{Replicas: &two}, Status: appsv1.StatefulSetStatus{Replicas: 1}},
		&appsv1.StatefulSet{ObjectMeta: meta("whole"), Spec: appsv1.StatefulSetSpec{Replicas: &two}, Status: appsv1.StatefulSetStatus{Replicas: 2}},
		&appsv1.StatefulSet{ObjectMeta: meta("new")},
		&appsv1.DaemonSet{ObjectMeta: meta("agent"), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 2}},
		event("a", "StatefulSet", "db", "FailedCreate", "earlier", time.Hour),
		event("b", "StatefulSet", "db", "FailedCreate", "exceeded quota: few", time.Minute),
		event("c", "StatefulSet", "db", "FailedUpdate", "another reason", time.Second),
		event("d", "StatefulSet", "whole", "FailedCreate", "over by now", time.Minute),
		event("e", "DaemonSet", "agent", "FailedCreate", "exceeded quota: agents", time.Minute),
		event("f", "Job", "new", "FailedCreate", "of another kind", time.Minute),
		event("g", "StatefulSet", "db", "FailedCreate", "dated in the future", -100*365*24*time.Hour),
		former,
	}
	failures := func(g *gatherer) map[string]string {
		_, err := g.namespaces(t.Context())
		require.NoError(t, err)
		out := map[string]string{}
		for _, w := range g.facts.Namespaces[0].Workloads {
			out[w.Name] = w.Failure
		}
		return out
	}
	g := gathererOf(Options{Namespace: "shop"}, "", objects...)
	assert.Equal(t, map[string]string{"db": "exceeded quota: few (event of 2026-06-01T11:59:00Z)", "whole": "", "new": "", "agent": "exceeded quota: agents (event of 2026-06-01T11:59:00Z)"}, failures(g))
	assert.Empty(t, g.facts.Failures)

	g = gathererOf(Options{Namespace: "shop"}, "events", objects...)
	assert.Equal(t, map[string]string{"db": "", "whole": "", "new": "", "agent": ""}, failures(g))
	require.Len(t, g.facts.Failures, 1)
	assert.Equal(t, doctor.Failure{What: "Events", Why: g.facts.Failures[0].Why, Kind: doctor.ReadForbidden, Checks: []doctor.ID{doctor.PodsRefused}}, g.facts.Failures[0])

	g = gathererOf(Options{Namespace: "shop"}, "events", objects[0], objects[2])
	assert.Equal(t, map[string]string{"whole": ""}, failures(g))
	assert.Empty(t, g.facts.Failures, "without a missing pod, no event is read")
}

// TestTheEventsAreSelectedByTheServer: there may be many others.
func TestTheEventsAreSelectedByTheServer(t *testing.T) {
	g := gathererOf(Options{Namespace: "shop"}, "",
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}})
	_, err := g.namespaces(t.Context())
	require.NoError(t, err)
	var selectors []string
	for _, a := range g.client.(interface{ Actions() []clienttesting.Action }).Actions() {
		if list, ok := a.(clienttesting.ListAction); ok && a.GetResource().Resource == "events" {
			selectors = append(selectors, list.GetListRestrictions().Fields.String())
		}
	}
	assert.Equal(t, []string{"reason=FailedCreate,type=Warning"}, selectors)
}
