package api

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fullService has a value in every field that Keep can name, and in others.
func fullService() *corev1.Service {
	deleted := metav1.NewTime(time.Unix(2e9, 0))
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7", DeletionTimestamp: &deleted,
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0)),
			Labels:            map[string]string{"app": "web"},
			Annotations:       map[string]string{"a": "1", "b": "2", "big": "x"},
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "m"}},
			Finalizers:        []string{"f"},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "Shop"}},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}},
			ExternalName: "x", SessionAffinity: corev1.ServiceAffinityClientIP,
		},
		Status: corev1.ServiceStatus{
			Conditions:   []metav1.Condition{{Type: "One"}, {Type: "Two"}, {Type: "Three"}},
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}},
		},
	}
}

func TestStripService(t *testing.T) {
	full := fullService()
	who := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7", DeletionTimestamp: full.DeletionTimestamp}
	for name, c := range map[string]struct {
		keep Keep
		adds func(*corev1.Service)
	}{
		"nothing":           {Keep{}, func(*corev1.Service) {}},
		"CreationTimestamp": {Keep{CreationTimestamp: true}, func(s *corev1.Service) { s.CreationTimestamp = full.CreationTimestamp }},
		"Annotations":       {Keep{Annotations: []string{"b", "absent"}}, func(s *corev1.Service) { s.Annotations = map[string]string{"b": "2"} }},
		"no annotation":     {Keep{Annotations: []string{"absent"}}, func(*corev1.Service) {}},
		"OpenShift's":       {Keep{OpenShiftAnnotation: true}, func(*corev1.Service) {}}, // see TestTranslate
		"Conditions":        {Keep{Conditions: []string{"Three", "absent", "One"}}, func(s *corev1.Service) { s.Status.Conditions = []metav1.Condition{{Type: "Three"}, {Type: "One"}} }},
		"Type":              {Keep{Type: true}, func(s *corev1.Service) { s.Spec.Type = full.Spec.Type }},
		"ClusterIP":         {Keep{ClusterIP: true}, func(s *corev1.Service) { s.Spec.ClusterIP = full.Spec.ClusterIP }},
		"ClusterIPs":        {Keep{ClusterIPs: true}, func(s *corev1.Service) { s.Spec.ClusterIPs = full.Spec.ClusterIPs }},
		"Selector":          {Keep{Selector: true}, func(s *corev1.Service) { s.Spec.Selector = full.Spec.Selector }},
		"Ports":             {Keep{Ports: true}, func(s *corev1.Service) { s.Spec.Ports = full.Spec.Ports }},
	} {
		t.Run(name, func(t *testing.T) {
			want := &corev1.Service{ObjectMeta: who}
			c.adds(want)
			got := StripService(full, c.keep)
			assert.Equal(t, want, got)
			assert.Equal(t, got, StripService(got, c.keep), "an informer may strip twice")
			assert.Equal(t, fullService(), full, "the original belongs to someone else")
		})
	}
	assert.Equal(t, 9, reflect.TypeFor[Keep]().NumField(), "a field without a row in this table")
}
