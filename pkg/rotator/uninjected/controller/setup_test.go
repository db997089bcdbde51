package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestServicePredicate(t *testing.T) {
	strip := func(change func(*corev1.Service)) *corev1.Service {
		svc := rotatortest.Service("web", "web-tls", "app", "web")
		change(svc)
		kept, err := facts.ServiceTransform(false, cluster.Keep)(svc)
		require.NoError(t, err)
		return kept.(*corev1.Service)
	}
	asking, silent := strip(func(*corev1.Service) {}), strip(func(s *corev1.Service) { s.Annotations = nil })
	now := metav1.Now()
	tests := []struct {
		name          string
		before, after *corev1.Service
		want          bool
	}{
		{"nothing", asking, asking, false},
		{"nothing, asks for nothing", silent, silent, false},
		{"asks", silent, asking, true},
		{"asks no more", asking, silent, true},
		{"asks for another", asking, strip(func(s *corev1.Service) { s.Annotations[api.AnnotationSecretName] = "other" }), true},
		{"selects others", asking, strip(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "x"} }), true},
		{"selects others, asks for nothing", silent, strip(func(s *corev1.Service) { s.Annotations, s.Spec.Selector = nil, nil }), false},
		{"leads to another port", asking, strip(func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 443}} }), true},
		{"leads to another port, asks for nothing", silent, strip(func(s *corev1.Service) { s.Annotations, s.Spec.Ports = nil, []corev1.ServicePort{{Port: 443}} }), false},
		{"is being deleted", asking, strip(func(s *corev1.Service) { s.DeletionTimestamp = &now }), true},
		{"a condition", asking, strip(func(s *corev1.Service) { s.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady}} }), false},
		{"its pods connect", asking, strip(func(s *corev1.Service) { s.Annotations[api.AnnotationConnect] = "*" }), true},
		{"another issuer", asking, strip(func(s *corev1.Service) { s.Annotations[api.AnnotationIssuer] = "external" }), true},
		{"a protocol", asking, strip(func(s *corev1.Service) { s.Annotations[api.AnnotationProbe] = "443=imap" }), true},
		{"headless", asking, strip(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"None"} }), true},
		{"its pods connect, asks for nothing", silent, strip(func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationConnect: "*"} }), false},
		{"another annotation", asking, strip(func(s *corev1.Service) { s.Annotations[api.AnnotationDuration] = "2h" }), false},
	}
	var p servicePredicate
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, p.Update(event.TypedUpdateEvent[*corev1.Service]{ObjectOld: tt.before, ObjectNew: tt.after}))
		})
	}
	for svc, want := range map[*corev1.Service]bool{asking: true, silent: false} {
		assert.Equal(t, want, p.Create(event.TypedCreateEvent[*corev1.Service]{Object: svc}))
		assert.Equal(t, want, p.Delete(event.TypedDeleteEvent[*corev1.Service]{Object: svc}))
	}
}
