package signer

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Reasons of the events. A condition that turns False, or whose reason changes while it is
// False, also causes an event with its reason: InvalidAnnotation, SecretConflict, CALost …
// See NotOptedInNotice for Services without a condition.
const (
	eventReissued      = "CertificateReissued" // Normal: why there is a new certificate
	eventRenewalFailed = "RenewalFailed"       // Warning: the present certificate is still valid
)

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

// renewalFailed reports a certificate that could not be replaced, and is still valid.
func renewalFailed(svc *corev1.Service, secret string, why error) Event {
	return Event{svc, corev1.EventTypeWarning, eventRenewalFailed, fmt.Sprintf("Secret %q keeps its present certificate: %s", secret, why)}
}

// notReady reports a condition that has just turned False.
func notReady(svc *corev1.Service, c *state.Condition) Event {
	return Event{svc, corev1.EventTypeWarning, c.Reason, c.Message}
}

// A Service in a namespace without the label gets no condition. An event reports that it gets no
// certificate, since the user may have forgotten the label.

// NoticeDelay is the time between a Service's request and the event that its namespace does not
// have the label. A user who creates both at the same time has not forgotten it.
const NoticeDelay = 10 * time.Second

// AsksAnew reports whether a change of a Service is a request for a certificate, or for another
// one. before is nil for a new Service, after for a deleted one.
func AsksAnew(before, after *corev1.Service) bool {
	if after == nil || !api.Asks(after) {
		return false
	}
	return before == nil || !api.Asks(before) ||
		before.Annotations[api.AnnotationSecretName] != after.Annotations[api.AnnotationSecretName] ||
		api.WantsPodKeys(before) != api.WantsPodKeys(after)
}

// NotOptedInNotice returns the event on a Service that requests a certificate in a namespace without
// the label. It is nil if the namespace has the label or does not need it, and if the Service has a
// condition, which then reports it.
func NotOptedInNotice(svc *corev1.Service, optedIn bool) *Event {
	s := Situation{OptedIn: optedIn}
	s.Key.Namespace = svc.Namespace
	if !api.Asks(svc) || s.optedIn(svc) || api.Condition(svc, api.ConditionReady) != nil {
		return nil
	}
	return &Event{svc, corev1.EventTypeWarning, string(reasonNotOptedIn), fmt.Sprintf("%s: the Service gets no certificate; to opt in: %s",
		s.labelText("does not have"), api.LabelCommand(svc.Namespace))}
}
