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

// Reasons of condition ConditionReady that more than one process names.
const (
	// ReasonRetained: True; the Secret is not asked for any more, and is kept.
	ReasonRetained = "Retained"
	// ReasonWaitingForTrust: False; the certificate lacks names that not every
	// client would accept yet.
	ReasonWaitingForTrust = "WaitingForTrust"
	// ReasonNotOptedIn: False; the namespace lacks label LabelInject, and nothing shows that the
	// Service had a certificate while it had it. Of requests for certificates too.
	ReasonNotOptedIn = "NamespaceNotOptedIn"
)
