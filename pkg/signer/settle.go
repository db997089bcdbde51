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

// Outcome is what became of the Secret: at most one of its fields is set.
type Outcome struct {
	Secret *SecretFacts // what it holds after the write; nil if nothing was written
	Err    error        // why what was decided could not be done
}

// Settlement is what follows for the Services that have a part in a Secret.
type Settlement struct {
	// Events report what became of the Secret.
	Events []Event
	// Failure is the reason of the attempt that has failed; empty if none has.
	Failure  Reason
	Services []ServiceStatus
	// Leaf is the fingerprint of the leaf that the Secret holds, if all is well.
	Leaf string
	// NextAt is when to look at the Secret again, zero if only a change can bring
	// anything. After a failure it is for the caller to try again.
	NextAt time.Time
}

// Priority is that with which the Secret is looked at again at NextAt.
func (s Settlement) Priority() int {
	if s.Leaf == "" {
		return ratelimit.PriorityAwaited
	}
	return ratelimit.PriorityRenewal
}

// ServiceStatus is what a Service is to say of its certificate.
type ServiceStatus struct {
	Service     *corev1.Service
	Ready       *state.Condition // nil: none
	Annotations map[string]any   // to be written beside it; nil for one to be removed
	// NotReady is the event that reports the condition once it is written, or nil.
	NotReady *Event
	// Failure is what to count once it is written, or empty.
	Failure Reason
}

// settled is a Situation after its Decision was carried out, or could not be.
type settled struct {
	Situation
	d       Decision
	problem Problem
	leaf    string // of the certificate that is served, if all is well
}

// Settle returns what follows for the Services once what was decided was done, or
// could not be. It is pure.
func Settle(s Situation, d Decision, o Outcome) Settlement {
	out := Settlement{Leaf: d.Leaf, NextAt: d.NextAt}
	now := settled{Situation: s, d: d, problem: d.Problem}
	switch {
	case o.Err != nil:
		now.problem = Problem{Reason: ReasonOf(o.Err, ReasonSignFailed), Message: o.Err.Error(), Temporary: true}
		if issue.Waiting(o.Err) == nil { // which is no failure, however often it is looked at
			out.Failure = now.problem.Reason
		}
	case o.Secret != nil:
		now.Secret, out.Leaf = o.Secret, o.Secret.Leaf.Fingerprint
		_, _, out.NextAt = evaluate(newCandidate(s, d, o.Secret))
	}
	now.leaf = out.Leaf
	out.Events = now.events(o)
	out.Services = now.services(out.Failure == "")
	return out
}

// events report a certificate that replaced another, or could not.
func (s settled) events(o Outcome) []Event {
	var events []Event
	for _, svc := range s.d.Members {
		switch {
		case o.Err != nil && s.Secret.usable(s.Now):
			events = append(events, renewalFailed(svc, s.Key.Name, o.Err))
		case o.Secret != nil && s.d.Issues() && s.d.Reason != reasonFirst:
			events = append(events, reissued(svc, s.Key.Name, s.d.Reason, s.d.Message))
		}
	}
	return events
}

// services returns the status of every Service that the decision is about and
// whose condition is for this Secret to decide. Conditions that turn False are
// counted as failures unless the attempt was.
func (s settled) services(count bool) []ServiceStatus {
	if s.d.Undecided {
		return nil
	}
	var statuses []ServiceStatus
	decided := map[types.UID]bool{}
	decide := func(svc *corev1.Service, ready *state.Condition) {
		if !decided[svc.UID] {
			decided[svc.UID] = true
			statuses = append(statuses, s.status(svc, ready, count))
		}
	}
	for _, m := range s.d.Refused {
		decide(m.Service, s.refused(m))
	}
	for _, svc := range s.d.Members {
		switch name, asks := api.Wants(svc); {
		case asks && name != s.Key.Name:
			continue // the Secret that it asks for now decides
		case s.hasPodKeys(svc):
			continue // see SettleUnnamed
		case !asks && len(s.kept(svc)) > 0 && s.kept(svc)[0] < s.Key.Name:
			continue // the first of those that it keeps decides
		}
		if s.problem.Temporary && s.Secret.usable(s.Now) && s.saysEnough(svc) {
			decided[svc.UID] = true // it has a certificate, whatever keeps it from having another
			continue
		}
		decide(svc, s.unlessSaid(svc, s.memberCondition(svc)))
	}
	for _, svc := range s.Asking {
		if !s.optedIn(svc) {
			decide(svc, nil) // what is not opted in gets no condition, and keeps none
		}
	}
	return statuses
}

// saysEnough reports whether the Service's condition stays as it is while nothing can be
// done. Why a Service was refused is not true any more once it waits for its turn.
func (s settled) saysEnough(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || s.problem.Reason != ReasonRateLimited)
}

// unlessSaid returns ready with the message that the Service's condition has if that is the
// same but for numbers, and an attempt has failed or the CA cannot sign: what API servers and CAs
// answer may hold a time or a count, and each of many attempts would be a write.
func (s settled) unlessSaid(svc *corev1.Service, ready *state.Condition) *state.Condition {
	said := api.Condition(svc, api.ConditionReady)
	if s.problem.Temporary && s.problem.Reason != ReasonRateLimited && said != nil &&
		said.Status == ready.Status && said.Reason == ready.Reason && withoutNumbers(said.Message) == withoutNumbers(ready.Message) {
		ready.Message = said.Message
	}
	return ready
}

var numbers = regexp.MustCompile(`[0-9]+`)

func withoutNumbers(message string) string { return numbers.ReplaceAllString(message, "0") }

func (s settled) status(svc *corev1.Service, ready *state.Condition, count bool) ServiceStatus {
	status := ServiceStatus{Service: svc, Ready: ready}
	if ready == nil {
		return status
	}
	// Names that wait are not a failure: the certificate is good.
	waits := ready.Reason == string(reasonWaiting)
	failed := ready.Status == metav1.ConditionFalse && !(waits && s.leaf != "")
	status.Annotations = openShiftOnService(svc, ready, s.signedBy(), failed)
	if ready.Status == metav1.ConditionFalse {
		event := notReady(svc, ready)
		status.NotReady = &event
		if count && !waits {
			status.Failure = Reason(ready.Reason)
		}
	}
	return status
}

// signedBy returns the common name of the CA that signed what is in the Secret,
// empty if that is not known.
func (s settled) signedBy() string {
	if s.Secret == nil || s.Authority == nil {
		return ""
	}
	issuer := s.Secret.SignedBy(s.Authority)
	if issuer == nil {
		return ""
	}
	return nameOfCA(issuer)
}
