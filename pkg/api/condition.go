package api

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition returns the Service's condition of the given type, or nil.
func Condition(svc *corev1.Service, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(svc.Status.Conditions, conditionType)
}

// Reasons of condition ConditionReady that more than one process uses.
const (
	// ReasonRetained: True; the Secret is no longer requested, and is kept.
	ReasonRetained = "Retained"
	// ReasonWaitingForTrust: False; the certificate lacks names that not every
	// client would accept yet.
	ReasonWaitingForTrust = "WaitingForTrust"
	// ReasonNotOptedIn: False; the namespace lacks label LabelInject, and there is no proof that
	// the Service had a certificate while it had the label. Also a reason of certificate requests.
	ReasonNotOptedIn = "NamespaceNotOptedIn"
	// ReasonInvalid: False; what the Service requests is not allowed. A certificate from before is kept.
	ReasonInvalid = "InvalidAnnotation"
	// ReasonTerminating: False; the Secret was deleted, and finalizers hold it. It stays as it is.
	ReasonTerminating = "SecretTerminating"
	// ReasonClockSkew: False; the signer's clock and the API server's differ.
	ReasonClockSkew = "ClockSkew"
)
