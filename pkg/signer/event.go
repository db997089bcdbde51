package signer

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
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
func notReady(svc *corev1.Service, c *state.Condition) Event {
	return Event{svc, corev1.EventTypeWarning, c.Reason, c.Message}
}

// A Service of a namespace without the label gets no condition, so that an event has to say that
// nothing is done for it: most who see it forgot the label.

// NoticeDelay is how long a namespace has to get its label after a Service asks, before an event
// says that it does not have it. Whoever makes both at once does not make a mistake.
const NoticeDelay = 10 * time.Second

// AsksAnew reports whether a change of a Service is that it asks for a certificate, or for another.
// before is nil for a new Service, after for one that is gone.
func AsksAnew(before, after *corev1.Service) bool {
	if after == nil || !api.Asks(after) {
		return false
	}
	return before == nil || !api.Asks(before) ||
		before.Annotations[api.AnnotationSecretName] != after.Annotations[api.AnnotationSecretName] ||
		api.WantsPodKeys(before) != api.WantsPodKeys(after)
}

// NotOptedInNotice returns the event on a Service that asks for a certificate in a namespace without the
// label. It is nil if the namespace has the label or does not need it, and if there is a condition,
// which then says so.
func NotOptedInNotice(svc *corev1.Service, optedIn bool) *Event {
	s := Situation{OptedIn: optedIn}
	s.Key.Namespace = svc.Namespace
	if !api.Asks(svc) || s.optedIn(svc) || api.Condition(svc, api.ConditionReady) != nil {
		return nil
	}
	return &Event{svc, corev1.EventTypeWarning, string(reasonNotOptedIn), fmt.Sprintf("%s: the Service gets no certificate; to opt in: %s",
		s.labelText("does not have"), api.LabelCommand(svc.Namespace))}
}
