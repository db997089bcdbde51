package api

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of condition ConditionServing, which the rotator writes: whether the
// pods serve the certificate that is in the Secret. One that does not hold of
// all ready pods is named if it holds of any, in this order.
const (
	ServingNoConsumers = "NoConsumers" // False: no ready pod mounts the Secret
	ServingPropagating = "Propagating" // False: a new certificate is on its way
	ServingStale       = "Stale"       // False: an older certificate, longer than a pod takes to get a new one
	ServingForeign     = "Foreign"     // False: another certificate than any that was in the Secret
	ServingPlaintext   = "Plaintext"   // False: no TLS
	ServingUnreachable = "Unreachable" // Unknown: no answer
	ServingNoPort      = "NoPort"      // Unknown: nothing tells a TCP port
	ServingCurrent     = "Current"     // True
	ServingNotVerified = "NotVerified" // Unknown: nobody looks
)

var leafSince = regexp.MustCompile(`\bleaf sha256:([0-9a-f]{64}) since (\S+)\)`)

// LeafSinceInMessage returns the words, in brackets, that LeafSince finds again.
func LeafSinceInMessage(fingerprint string, since time.Time) string {
	return "(" + LeafInMessage(fingerprint) + " since " + since.UTC().Format(time.RFC3339) + ")"
}

// LeafSince returns the leaf that the Service's pods were to serve when its
// condition ConditionServing was written, and since when, to the second.
func LeafSince(svc *corev1.Service) (fingerprint string, since time.Time, ok bool) {
	c := Condition(svc, ConditionServing)
	if c == nil {
		return "", time.Time{}, false
	}
	m := leafSince.FindStringSubmatch(c.Message)
	if m == nil {
		return "", time.Time{}, false
	}
	since, err := time.Parse(time.RFC3339, m[2])
	return m[1], since, err == nil
}

// ReasonRetained is the reason of a Ready condition, True, whose Secret is not
// asked for any more and kept.
const ReasonRetained = "Retained"

var secretInMessage = regexp.MustCompile(`\bSecret "([^"]+)"`)

// PartIn returns the Secret that holds the Service's certificate: the one that it
// asks for, or the one that is retained for it.
func PartIn(svc *corev1.Service) (secretName string, ok bool) {
	if secretName, ok = Wants(svc); ok || svc.DeletionTimestamp != nil {
		return secretName, ok
	}
	c := Condition(svc, ConditionReady)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != ReasonRetained {
		return "", false
	}
	m := secretInMessage.FindStringSubmatch(c.Message)
	if m == nil {
		return "", false
	}
	return m[1], true
}
