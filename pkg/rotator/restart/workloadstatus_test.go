package restart

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/servingcert/servingcert/pkg/api"
)

func int32p(n int32) *int32 { return &n }

func askingTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"app": "web"},
		Annotations: map[string]string{api.AnnotationOnRotate: "restart", AnnotationRestartedAt: "2026-03-01T13:00:00+01:00"},
	}}
}

func TestStatusOfDeployment(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	tests := []struct {
		name   string
		change func(*appsv1.Deployment)
		want   progress // but for its counts
	}{
		{"done", func(*appsv1.Deployment) {}, progress{done: true, deadline: 10 * time.Minute}},
		{"not observed", func(d *appsv1.Deployment) { d.Generation = 3 }, progress{deadline: 10 * time.Minute}},
		{"not updated", func(d *appsv1.Deployment) {
			d.Status.UpdatedReplicas = 2
			d.Status.Replicas = 2
			d.Status.AvailableReplicas = 2
		}, progress{deadline: 10 * time.Minute}},
		{"old ones still there", func(d *appsv1.Deployment) { d.Status.Replicas = 4 }, progress{deadline: 10 * time.Minute}},
		{"not available", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 }, progress{deadline: 10 * time.Minute}},
		{"default replicas", func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, progress{done: true, deadline: 10 * time.Minute}},
		{"no deadline", func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = int32p(math.MaxInt32) }, progress{done: true}},
		{"given up", func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, progress{exceeded: true, deadline: 10 * time.Minute}},
		{"given up before the last change", func(d *appsv1.Deployment) {
			d.Generation = 3
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, progress{deadline: 10 * time.Minute}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "5", Generation: 2},
				Spec:       appsv1.DeploymentSpec{Replicas: int32p(3), Selector: selector, Template: askingTemplate(), ProgressDeadlineSeconds: int32p(600)},
				Status:     appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3},
			}
			d.Status.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Reason: "NewReplicaSetAvailable"},
			}
			tt.change(d)
			s := deploymentStatus(d)
			assert.Equal(t, counts{2, int64(d.Status.Replicas), int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas)}, s.progress.counts)
			s.progress.counts = counts{}
			assert.Equal(t, tt.want, s.progress)
			assert.True(t, s.asks)
			assert.True(t, s.restartedAt.Equal(restartNow))
			assert.True(t, s.selector.Matches(labels.Set(s.template)))
			assert.Equal(t, []any{"5", "u", false}, []any{s.resourceVersion, string(s.uid), s.deleting})
		})
	}
}

func TestStatusOfStatefulSet(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(*appsv1.StatefulSet)
		done     bool
		onDelete bool
	}{
		"done":         {func(*appsv1.StatefulSet) {}, true, false},
		"not observed": {func(s *appsv1.StatefulSet) { s.Generation = 3 }, false, false},
		"not ready":    {func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 2 }, false, false},
		"not updated":  {func(s *appsv1.StatefulSet) { s.Status.UpdatedReplicas = 2 }, false, false},
		"at two revisions": {func(s *appsv1.StatefulSet) {
			s.Status.UpdateRevision = "b"
		}, false, false},
		"on delete": {func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }, true, true},
		"in part": {func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: int32p(1)}
			s.Status.UpdatedReplicas, s.Status.UpdateRevision = 2, "b"
		}, true, false},
		"in part, not yet": {func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: int32p(1)}
			s.Status.UpdatedReplicas, s.Status.UpdateRevision = 1, "b"
		}, false, false},
		"in no part": {func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: int32p(3)}
			s.Status.UpdatedReplicas = 0
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec:       appsv1.StatefulSetSpec{Replicas: int32p(3), Template: askingTemplate()},
				Status: appsv1.StatefulSetStatus{
					ObservedGeneration: 2, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3, CurrentRevision: "a", UpdateRevision: "a",
				},
			}
			tt.change(set)
			s := statefulSetStatus(set)
			assert.Equal(t, tt.done, s.progress.done)
			assert.Equal(t, tt.onDelete, s.onDelete)
			assert.EqualValues(t, 3, s.wanted)
		})
	}
}

func TestStatusOfDaemonSet(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(*appsv1.DaemonSet)
		done     bool
		onDelete bool
	}{
		"done":          {func(*appsv1.DaemonSet) {}, true, false},
		"not observed":  {func(s *appsv1.DaemonSet) { s.Generation = 3 }, false, false},
		"not updated":   {func(s *appsv1.DaemonSet) { s.Status.UpdatedNumberScheduled = 2 }, false, false},
		"not available": {func(s *appsv1.DaemonSet) { s.Status.NumberAvailable = 2 }, false, false},
		"on delete":     {func(s *appsv1.DaemonSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec:       appsv1.DaemonSetSpec{Template: askingTemplate()},
				Status: appsv1.DaemonSetStatus{
					ObservedGeneration: 2, DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3,
				},
			}
			tt.change(set)
			s := daemonSetStatus(set)
			assert.Equal(t, tt.done, s.progress.done)
			assert.Equal(t, tt.onDelete, s.onDelete)
			assert.EqualValues(t, 3, s.wanted)
		})
	}
}

// The template decides, even if the webhook would reject the pod or leave it alone.
func TestTemplateRequestsRestart(t *testing.T) {
	for value, want := range map[string]bool{"restart": true, "reload": false, "none": false, "": false, "Restart": false} {
		template := askingTemplate()
		template.Labels[api.LabelInject] = api.InjectDisabled
		template.Annotations[api.AnnotationOnRotate] = value
		s := deploymentStatus(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}})
		assert.Equal(t, want, s.asks, value)
		assert.False(t, s.selector.Matches(labels.Set(template.Labels)), "without a selector it owns nothing")
	}
	for _, value := range []string{"", "yesterday", "2026-03-01 13:00:00"} {
		template := askingTemplate()
		template.Annotations[AnnotationRestartedAt] = value
		s := deploymentStatus(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}})
		assert.True(t, s.restartedAt.IsZero(), value)
		assert.False(t, s.restartedSince(time.Time{}), value)
	}
}

// Labels and selectors may have a megabyte: nothing is kept of those that are too large.
func TestOfALargeWorkloadLittleIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		selector *metav1.LabelSelector
		label    int
		kept     bool
	}{
		"ordinary":       {webExcept("x"), 1, true},
		"large selector": {webExcept(make([]string, 1<<20)...), 1, false},
		"labels":         {webExcept("x"), maxLabels - len("app=web,x=,"), true},
		"large labels":   {webExcept("x"), maxLabels - len("app=web,x=,") + 1, false},
	} {
		template := askingTemplate()
		template.Labels["x"] = strings.Repeat("x", tt.label)
		s := deploymentStatus(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: tt.selector, Template: template}})
		assert.Equal(t, tt.kept, s.selector != nil, name)
		if tt.label > 1 {
			assert.Equal(t, tt.kept, s.template != nil, name)
		}
		assert.True(t, s.asks, name)
	}
}
