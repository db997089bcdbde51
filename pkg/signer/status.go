package signer

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Outcome is the result of an Action: at most one of its fields is set.
type Outcome struct {
	Secret *SecretFacts // after the write; nil if nothing was written
	Err    error        // why the action failed
}

// StatusUpdate holds what to write to the Services that share a Secret.
type StatusUpdate struct {
	// Events report the Outcome.
	Events []Event
	// Failure is the reason of a failed attempt, or empty.
	Failure  Reason
	Services []ServiceStatus
	// Leaf is the fingerprint of the Secret's leaf, if all is well.
	Leaf string
	// NextAt is when to reconcile again without a change, or zero. After a failure, the
	// caller retries.
	NextAt time.Time
}

// Priority returns the priority of the reconcile at NextAt.
func (s StatusUpdate) Priority() int {
	if s.Leaf == "" {
		return ratelimit.PriorityAwaited
	}
	return ratelimit.PriorityRenewal
}

// ServiceStatus is the status of a Service's certificate.
type ServiceStatus struct {
	Service     *corev1.Service
	Ready       *state.Condition // nil: none
	Annotations map[string]any   // to write with it; a nil value removes the annotation
	// NotReady is the event to emit once the condition is written, or nil.
	NotReady *Event
	// Failure is the reason to count once the condition is written, or empty.
	Failure Reason
}

// applied is a Situation after an attempt to carry out its Decision.
type applied struct {
	Situation
	d       Decision
	problem Problem
	leaf    string // fingerprint, if all is well
}

// StatusUpdateOf returns the StatusUpdate after a Decision with this Outcome. It is pure.
func StatusUpdateOf(s Situation, d Decision, o Outcome) StatusUpdate {
	out := StatusUpdate{Leaf: d.Leaf, NextAt: d.NextAt}
	now := applied{Situation: s, d: d, problem: d.Problem}
	switch {
	case o.Err != nil:
		now.problem = Problem{Reason: ReasonOf(o.Err, ReasonSignFailed), Message: o.Err.Error(), Temporary: true}
		if issue.Waiting(o.Err) == nil { // not a failure, however often it is retried
			out.Failure = now.problem.Reason
		}
	case o.Secret != nil:
		now.Secret, out.Leaf = o.Secret, o.Secret.Leaf.Fingerprint
		out.NextAt = evaluate(newCandidate(now.Situation, d)).at
	}
	now.leaf = out.Leaf
	out.Events = now.events(o)
	out.Services = now.services(out.Failure == "")
	return out
}

// events returns the events about a certificate that was replaced, or could not be.
func (s applied) events(o Outcome) []Event {
	var events []Event
	for _, svc := range s.d.Participants {
		switch {
		case o.Err != nil && s.Secret.usable(s.Now):
			events = append(events, renewalFailed(svc, s.Key.Name, o.Err))
		case o.Secret != nil && s.d.Issues() && s.d.Reason != reasonFirst:
			events = append(events, reissued(svc, s.Key.Name, s.d.Reason, s.d.Message))
		}
	}
	return events
}

// services returns the status of each Service whose condition depends on this Secret.
// Conditions that turn False are counted as failures if count is set.
func (s applied) services(count bool) []ServiceStatus {
	if s.d.Wait {
		return nil
	}
	var statuses []ServiceStatus
	decided := map[types.UID]bool{}
	decide := func(svc *corev1.Service, ready *state.Condition) {
		if !decided[svc.UID] {
			decided[svc.UID] = true
			statuses = append(statuses, s.status(svc, ready, count && !s.d.External))
		}
	}
	for _, m := range s.d.Refused {
		decide(m.Service, s.refused(m))
	}
	for _, svc := range s.d.Participants {
		kept := s.kept(svc)
		switch name, asks := api.Wants(svc); {
		case asks && name != s.Key.Name:
			continue // its condition is about the Secret that it requests now
		case s.hasPodKeys(svc):
			continue // see UnnamedStatusUpdate
		case !asks && kept.All > 0 && kept.Names[0] < s.Key.Name:
			continue // its condition is about the first of the Secrets that it keeps
		}
		if s.d.External {
			decide(svc, s.externalCondition(svc))
			continue
		}
		if s.problem.Temporary && s.Secret.usable(s.Now) && s.keepsCondition(svc) {
			decided[svc.UID] = true // its certificate is still good
			continue
		}
		decide(svc, s.reuseMessage(svc, s.memberCondition(svc)))
	}
	for _, svc := range s.Requesters {
		if !s.optedIn(svc) {
			decide(svc, nil) // a Service that is not opted in has no condition
		}
	}
	return statuses
}

// keepsCondition reports whether the Service's condition stays unchanged while nothing can be
// done. The reason of a refusal is outdated once the Service only waits for a rate limit.
func (s applied) keepsCondition(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || s.problem.Reason != ReasonRateLimited)
}

// reuseMessage returns ready with the message of the present condition if the two differ only in
// numbers, and an attempt has failed or the CA cannot sign. Answers of API servers and CAs may
// contain a time or a count, and each of many attempts would cause a write.
func (s applied) reuseMessage(svc *corev1.Service, ready *state.Condition) *state.Condition {
	said := api.Condition(svc, api.ConditionReady)
	if s.problem.Temporary && s.problem.Reason != ReasonRateLimited && said != nil &&
		said.Status == ready.Status && said.Reason == ready.Reason && withoutNumbers(said.Message) == withoutNumbers(ready.Message) {
		ready.Message = said.Message
	}
	return ready
}

var numbers = regexp.MustCompile(`[0-9]+`)

func withoutNumbers(message string) string { return numbers.ReplaceAllString(message, "0") }

func (s applied) status(svc *corev1.Service, ready *state.Condition, count bool) ServiceStatus {
	status := ServiceStatus{Service: svc, Ready: ready}
	if ready == nil {
		return status
	}
	// Names that wait are not a failure: the certificate is good.
	waits := ready.Reason == string(reasonWaiting)
	failed := ready.Status == metav1.ConditionFalse && !(waits && s.leaf != "")
	status.Annotations = openShiftOnService(svc, ready, s.signedBy(), failed)
	if ready.Status == metav1.ConditionFalse || ready.Reason == string(reasonOverdue) {
		event := notReady(svc, ready)
		status.NotReady = &event
		if count && !waits {
			status.Failure = Reason(ready.Reason)
		}
	}
	return status
}

// signedBy returns the common name of the CA that signed the Secret's certificate, or "" if
// unknown.
func (s applied) signedBy() string {
	if s.Secret == nil || s.Authority == nil {
		return ""
	}
	issuer := s.Secret.SignedBy(s.Authority)
	if issuer == nil {
		return ""
	}
	return nameOfCA(issuer)
}
