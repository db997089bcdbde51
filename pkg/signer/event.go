package signer

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the events. A condition that turns False, or False for another
// reason, is an event of the condition's reason: InvalidAnnotation,
// SecretConflict, CALost … See NotOptedInNotice for where there is no condition.
const (
	eventReissued      = "CertificateReissued" // Normal: why there is a new certificate
	eventRenewalFailed = "RenewalFailed"       // Warning: the certificate that is there is still good
)

// maxEventNote is the API's bound on an event's note, in bytes: it refuses the event
// otherwise.
const maxEventNote = 1024

// EventNote returns the text, or as much of its beginning as the note of an event can
// hold.
func EventNote(text string) string {
	if len(text) <= maxEventNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxEventNote-len("…")], "") + "…"
}

// Event is an event on a Service. It is emitted after the write that it reports;
// a first issue is reported by the condition alone.
type Event struct {
	Service            *corev1.Service
	Type, Reason, Note string
}

// reissued reports a certificate that replaces another.
func reissued(svc *corev1.Service, secret string, reason Reason, why string) Event {
	return Event{svc, corev1.EventTypeNormal, eventReissued, fmt.Sprintf("%s: Secret %q has a new certificate: %s", reason, secret, why)}
}

// renewalFailed reports a certificate that could not be replaced, and is good.
func renewalFailed(svc *corev1.Service, secret string, why error) Event {
	return Event{svc, corev1.EventTypeWarning, eventRenewalFailed, fmt.Sprintf("Secret %q keeps the certificate that it has: %s", secret, why)}
}

// notReady reports a condition that has just turned False.
func notReady(svc *corev1.Service, c *metav1.Condition) Event {
	return Event{svc, corev1.EventTypeWarning, c.Reason, c.Message}
}
