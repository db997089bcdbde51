package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition returns the Service's condition of the given type, or nil.
func Condition(svc *corev1.Service, conditionType string) *metav1.Condition {
	for i := range svc.Status.Conditions {
		if c := &svc.Status.Conditions[i]; c.Type == conditionType {
			return c
		}
	}
	return nil
}
