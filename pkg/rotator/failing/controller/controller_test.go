package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/failing"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestWhereEventsAre(t *testing.T) {
	web := pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for name, tt := range map[string]struct {
		f    failing.Finding
		want int
	}{
		"workload and Service":       {failing.Finding{Key: failing.Key{Workload: web}, For: rotatortest.Service("web", "web-tls")}, 2},
		"no Service":                 {failing.Finding{Key: failing.Key{Workload: web}}, 1},
		"a pod without a controller": {failing.Finding{Key: failing.Key{Pod: "u"}, Pod: "web"}, 1},
	} {
		recorder := events.NewFakeRecorder(3)
		tt.f.Reason, tt.f.Text = api.PodsFailing, "container app: 100% wrong"
		eventWriter{recorder}.report("shop", tt.f)
		close(recorder.Events)
		var got []string
		for e := range recorder.Events {
			got = append(got, e)
			assert.Equal(t, "Warning PodsFailing container app: 100% wrong", e)
		}
		assert.Len(t, got, tt.want, name)
	}
}

func TestRelevantPodChanges(t *testing.T) {
	status := api.InjectionStatus{Containers: map[string]string{"app": "files"}}
	injected := rotatortest.All(rotatortest.Label(api.LabelInjected, "true"), rotatortest.Annotation(api.AnnotationStatus, status.Format()))
	of := func(changes ...rotatortest.Change) *pods.Facts {
		return pods.FactsOf(rotatortest.ReadyPod("web-1", "web", changes...))
	}
	runs := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	again := rotatortest.All(runs, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ })
	renamed := func(p *corev1.Pod) { p.ResourceVersion = "2" }
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }
	for _, tt := range []struct {
		name          string
		before, after *pods.Facts
		want          bool
	}{
		{"another pod comes", nil, of(), false},
		{"another pod fails", of(), of(runs), false},
		{"it comes", nil, of(injected), true},
		{"it goes", of(injected), nil, true},
		{"it is being deleted", of(injected), of(injected, deleted), true},
		{"it is not ready", of(injected), of(injected, runs), true},
		{"it was restarted", of(injected, runs), of(injected, again), true},
		{"nothing of it changes that matters", of(injected, runs), of(injected, runs, renamed), false},
		{"it is ready", of(injected, runs), of(injected), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			r := &reconciler{cluster: &cluster.Cluster{Config: cluster.Config{Now: func() time.Time { return rotatortest.Noon }}}, state: newState()}
			r.onPod(func(_ facts.Queue, namespace string) { got = append(got, namespace) })(context.Background(), nil, tt.before, tt.after)
			assert.Equal(t, tt.want, len(got) == 1 && got[0] == "shop")
			assert.LessOrEqual(t, len(got), 1)
			assert.Empty(t, r.state.rounds, "a Deployment's pods may be deleted")
		})
	}
}

func TestRelevantServiceChanges(t *testing.T) {
	asks, silent := rotatortest.Service("web", "web-tls"), rotatortest.Service("web", "")
	delete(silent.Annotations, api.AnnotationSecretName)
	podKeys := silent.DeepCopy()
	podKeys.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}
	says := func(svc *corev1.Service, message string) *corev1.Service {
		out := svc.DeepCopy()
		out.Status.Conditions = []metav1.Condition{{Type: api.ConditionPodsHealthy, Message: message}}
		return out
	}
	looks := 0
	r := &reconciler{}
	handler := r.onService(func(facts.Queue, string) { looks++ })
	update := func(before, after *corev1.Service) int {
		looks = 0
		handler.UpdateFunc(context.Background(), event.TypedUpdateEvent[*corev1.Service]{ObjectOld: before, ObjectNew: after}, nil)
		return looks
	}
	create := func(svc *corev1.Service) int {
		looks = 0
		handler.CreateFunc(context.Background(), event.TypedCreateEvent[*corev1.Service]{Object: svc}, nil)
		return looks
	}
	assert.Equal(t, 1, create(asks))
	assert.Equal(t, 1, create(podKeys))
	assert.Equal(t, 1, create(says(silent, "x")))
	assert.Zero(t, create(silent))
	assert.Equal(t, 1, update(asks, silent))
	assert.Equal(t, 1, update(silent, podKeys))
	assert.Equal(t, 1, update(asks, says(asks, "x")))
	assert.Equal(t, 1, update(says(asks, "x"), says(asks, "y")))
	assert.Zero(t, update(says(asks, "x"), says(asks, "x")))
	assert.Zero(t, update(asks, rotatortest.Serves(asks.DeepCopy(), rotatortest.Leaf(1), rotatortest.Noon)))
}

func TestMetrics(t *testing.T) {
	s := newState()
	require.NoError(t, prometheus.NewPedanticRegistry().Register(s))
	assert.Zero(t, testutil.CollectAndCount(s))
	s.put("shop", 2, map[failing.Key]failing.Report{{Container: "app"}: {}})
	s.put("past", 0, map[failing.Key]failing.Report{{Container: "app"}: {}})
	assert.NoError(t, testutil.CollectAndCompare(s, strings.NewReader(`
# HELP servingcert_failing_workloads Workloads whose pods fail, or are deleted by their operator, after an injection, by namespace; absent if there are none.
# TYPE servingcert_failing_workloads gauge
servingcert_failing_workloads{namespace="shop"} 2
`)))
	reported, rounds := s.of("past", rotatortest.Noon)
	assert.Len(t, reported, 1)
	assert.Empty(t, rounds)
	s.put("shop", 0, nil)
	s.put("past", 0, nil)
	assert.Empty(t, s.namespaces)
}

func TestDeletionsAreForgotten(t *testing.T) {
	s := newState()
	s.deleted(pods.FactsOf(rotatortest.ReadyPod("web-1", "web")), rotatortest.Noon)
	_, rounds := s.of("shop", rotatortest.Noon)
	assert.Len(t, rounds, 1)
	_, rounds = s.of("shop", rotatortest.Noon.Add(time.Hour))
	assert.Empty(t, rounds)
	assert.Empty(t, s.rounds)
}
