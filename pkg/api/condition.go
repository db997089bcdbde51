package api

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leafInMessage is how a Ready condition's message names the certificate in the
// Secret, so that others can compare what a pod serves without reading Secrets.
var leafInMessage = regexp.MustCompile(`\bleaf sha256:([0-9a-f]{64})\b`)

// LeafInMessage returns the words that LeafOf finds again.
func LeafInMessage(fingerprint string) string { return "leaf sha256:" + fingerprint }

// LeafOf returns the fingerprint (SHA-256 of the DER, in hex) of the leaf that
// the Service's Ready condition names, or false.
func LeafOf(svc *corev1.Service) (fingerprint string, ok bool) {
	c := Condition(svc, ConditionReady)
	if c == nil {
		return "", false
	}
	m := leafInMessage.FindStringSubmatch(c.Message)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// Condition returns the Service's condition of the given type, or nil.
func Condition(svc *corev1.Service, conditionType string) *metav1.Condition {
	for i := range svc.Status.Conditions {
		if c := &svc.Status.Conditions[i]; c.Type == conditionType {
			return c
		}
	}
	return nil
}
