package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func withCondition(c metav1.Condition) *corev1.Service {
	return &corev1.Service{Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "x"}, c}}}
}

func TestLeafSinceReadsBack(t *testing.T) {
	leaf, since := strings.Repeat("0a", 32), time.Date(2026, 5, 1, 14, 0, 1, 5, time.FixedZone("", 7200))
	svc := withCondition(metav1.Condition{Type: api.ConditionServing, Message: "words (leaf) " + api.LeafSinceInMessage(leaf, since)})
	got, at, ok := api.LeafSince(svc)
	assert.True(t, ok)
	assert.Equal(t, leaf, got)
	assert.Equal(t, time.Date(2026, 5, 1, 12, 0, 1, 0, time.UTC), at)
	_, ok = api.LeafOf(svc)
	assert.False(t, ok, "that is the Ready condition's to say")

	for _, message := range []string{"", "(leaf sha256:" + leaf + ")", "(leaf sha256:" + leaf + " since yesterday)", "(leaf sha256:0a since 2026-05-01T12:00:00Z)"} {
		_, _, ok := api.LeafSince(withCondition(metav1.Condition{Type: api.ConditionServing, Message: message}))
		assert.False(t, ok, message)
	}
	_, _, ok = api.LeafSince(withCondition(metav1.Condition{Type: api.ConditionReady, Message: api.LeafSinceInMessage(leaf, since)}))
	assert.False(t, ok)
}

func TestPartIn(t *testing.T) {
	retained := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ReasonRetained, Message: `not asked for any more; Secret "old-tls" is kept`}
	now := metav1.Now()
	tests := []struct {
		name   string
		change func(*corev1.Service)
		want   string
	}{
		{"retained", func(*corev1.Service) {}, "old-tls"},
		{"asks", func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationSecretName: "web-tls"} }, "web-tls"},
		{"asks for nothing", func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationSecretName: ""} }, ""},
		{"issued, and asks no more", func(s *corev1.Service) { s.Status.Conditions[1].Reason = "Issued" }, ""},
		{"not retained", func(s *corev1.Service) { s.Status.Conditions[1].Status = metav1.ConditionFalse }, ""},
		{"names none", func(s *corev1.Service) { s.Status.Conditions[1].Message = "kept" }, ""},
		{"no condition", func(s *corev1.Service) { s.Status.Conditions = nil }, ""},
		{"being deleted", func(s *corev1.Service) { s.DeletionTimestamp = &now }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc := withCondition(retained)
			tt.change(svc)
			got, _ := api.PartIn(svc)
			assert.Equal(t, tt.want, got)
		})
	}
}
