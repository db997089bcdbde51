package signer

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

// The events, all on the Service. Each is emitted after the write that it tells
// of; a first issue is told of by the condition alone.
const (
	eventReissued      = "CertificateReissued" // Normal: why there is a new certificate
	eventRenewalFailed = "RenewalFailed"       // Warning: the certificate that is there is still good
	// A condition that turns False, or False for another reason, is an event of
	// its reason: InvalidAnnotation, SecretConflict, CALost …

	actionIssue = "Issue"
)

func emitReissued(r events.EventRecorder, svc *corev1.Service, secret string, reason Reason, why string) {
	emit(r, svc, corev1.EventTypeNormal, eventReissued, fmt.Sprintf("%s: Secret %q has a new certificate: %s", reason, secret, why))
}

func emitRenewalFailed(r events.EventRecorder, svc *corev1.Service, secret string, why string) {
	emit(r, svc, corev1.EventTypeWarning, eventRenewalFailed, fmt.Sprintf("Secret %q keeps the certificate it has: %s", secret, why))
}

// emitNotReady tells of a condition that has just turned False.
func emitNotReady(r events.EventRecorder, svc *corev1.Service, c *metav1.Condition) {
	emit(r, svc, corev1.EventTypeWarning, c.Reason, c.Message)
}

// maxEventNote is the API's bound on an event's note, in bytes: it refuses the
// event otherwise.
const maxEventNote = 1024

func emit(r events.EventRecorder, svc *corev1.Service, kind, reason, note string) {
	if len(note) > maxEventNote {
		note = strings.ToValidUTF8(note[:maxEventNote-len("…")], "") + "…"
	}
	r.Eventf(svc, nil, kind, reason, actionIssue, "%s", note)
}
