package signer

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reasons of the Ready condition beside those of a CA that cannot sign.
const (
	ReasonIssued       Reason = "Issued"                  // True
	ReasonRetained     Reason = api.ReasonRetained        // True: not asked for any more, and kept
	ReasonInvalid      Reason = "InvalidAnnotation"       // False: what is asked for is not allowed
	ReasonWaiting      Reason = api.ReasonWaitingForTrust // False: some names, or all, that not all clients accept yet
	ReasonConflict     Reason = "SecretConflict"          // False: the Secret is somebody else's
	ReasonRefused      Reason = "SigningRefused"          // False: what the CA signed is not what was asked for
	ReasonSignFailed   Reason = "SigningFailed"           // False
	ReasonWriteRefused Reason = "WriteRefused"            // False: the API server does not take the Secret
	ReasonWriteFailed  Reason = "WriteFailed"             // False: the API server was not reached
	ReasonUnavailable  Reason = "CAUnavailable"           // False: a CA that does not say why
	ReasonClockSkew    Reason = "ClockSkew"               // False: this clock and the API server's differ
	ReasonPending      Reason = "CAPending"               // never written: the CA is being read
)

// Reasons of the Ready condition under a CA that is elsewhere.
const (
	ReasonUnreachable Reason = "CAUnreachable"   // False: no server answers
	ReasonCARefused   Reason = "CARefused"       // False: a server answers that it will not sign
	ReasonCAAnswer    Reason = "CAAnswerInvalid" // False: a server answers with something else
	ReasonCAChanged   Reason = "CAChanged"       // False: a server signs with another CA than the one that clients trust
	ReasonCAUntrusted Reason = "CAUntrusted"     // False: the CA leads to no root that clients could be given
)

// Verdict is what there is to say about a Secret to the Services that have a
// part in it.
type Verdict struct {
	Leaf     string // fingerprint of the leaf that is served, if all is well
	Retained bool   // nobody asks for it (validly) any more
	Reason   Reason // why all is not well
	Message  string
	// Waits: nothing can be done now, and what exists stays as it is.
	Waits bool
}

func conflict(s Situation, why string) Verdict {
	return Verdict{
		Reason:  ReasonConflict,
		Message: fmt.Sprintf("Secret %q exists and is not this signer's: %s; it is left alone. Delete or rename it, or ask for another name", s.Key.Name, why),
	}
}

// blocked is the verdict under a CA that cannot sign.
func blocked(err error) Verdict {
	return Verdict{Reason: ReasonOf(err, ReasonUnavailable), Message: err.Error(), Waits: true}
}

// pending reports whether the CA has not been looked at yet.
func pending(err error) bool { return err != nil && ReasonOf(err, ReasonUnavailable) == ReasonPending }

// ConditionChange is a Ready condition that a Service is to have.
type ConditionChange struct {
	Service *corev1.Service
	Ready   *metav1.Condition // nil: none
}

// Conditions returns the condition of every Service that the decision is about
// and whose condition is for this Secret to decide. It is pure.
func Conditions(s Situation, d Decision) []ConditionChange {
	var changes []ConditionChange
	decided := map[types.UID]bool{}
	decide := func(svc *corev1.Service, c *metav1.Condition) {
		if !decided[svc.UID] {
			decided[svc.UID] = true
			changes = append(changes, ConditionChange{svc, c})
		}
	}
	for _, m := range d.Refused {
		decide(m.Service, condition(false, ReasonInvalid, refusedMessage(s, d, m)))
	}
	for _, svc := range d.Members {
		if name, asks := api.Wants(svc); asks && name != s.Key.Name {
			continue // the Secret that it asks for now decides
		}
		if d.Verdict.Waits && s.Secret.Usable(s.Now) && api.Condition(svc, api.ConditionReady) != nil {
			decided[svc.UID] = true // it has a certificate, whatever the CA is up to
			continue
		}
		decide(svc, memberCondition(s, d, svc))
	}
	for _, svc := range s.Asking {
		if !s.optedIn(svc) {
			decide(svc, nil) // what is not opted in gets no word from us, and keeps none
		}
	}
	return changes
}

func memberCondition(s Situation, d Decision, svc *corev1.Service) *metav1.Condition {
	switch {
	case d.Verdict.Reason != "" && d.Verdict.Reason != ReasonWaiting:
		return condition(false, d.Verdict.Reason, d.Verdict.Message)
	case d.Verdict.Reason == "" && d.Verdict.Retained:
		return condition(true, ReasonRetained, retainedMessage(s, d, svc))
	case len(d.Waiting[svc.UID]) > 0:
		return condition(false, ReasonWaiting, waitingMessage(s, d, svc))
	}
	return condition(true, ReasonIssued, issuedMessage(s, d, svc))
}

// refusedMessage says what is wrong, and to a Service that has a certificate
// what becomes of that.
func refusedMessage(s Situation, d Decision, m api.Member) string {
	message := m.Err.Error()
	switch {
	case !s.Secret.Usable(s.Now) || !s.Secret.OwnedBy(m.Service.UID):
	case d.Verdict.Retained:
		message += fmt.Sprintf("; the certificate in Secret %q is kept and renewed as it was", s.Key.Name)
	default:
		message += fmt.Sprintf("; its names stay in the certificate of Secret %q", s.Key.Name)
	}
	return message
}

func issuedMessage(s Situation, d Decision, svc *corev1.Service) string {
	text := describeNames(d.Wanted.DNSNames, d.Wanted.IPs)
	if kept := s.Kept[svc.UID]; len(kept) > 0 {
		text += fmt.Sprintf("; kept from before and renewed until deleted: %q", kept)
	}
	return issuedFacts(s, d).Message(text)
}

// waitingMessage says which names of the Service wait, for what, and what there
// is meanwhile.
func waitingMessage(s Situation, d Decision, svc *corev1.Service) string {
	have := "no certificate"
	if !nameless(d.Wanted) {
		have = describeNames(d.Wanted.DNSNames, d.Wanted.IPs)
	}
	return issuedFacts(s, d).Message(fmt.Sprintf("%s; waiting: %s: a root that clients may hold does not permit it, and such a client would reject the whole certificate; added when every older root has retired",
		have, describeNames(d.Waiting[svc.UID], nil)))
}

func issuedFacts(s Situation, d Decision) api.ReadyFacts {
	return api.ReadyFacts{Secret: s.Key.Name, Request: d.Asked.Hash(), Leaf: d.Verdict.Leaf}
}

func retainedMessage(s Situation, d Decision, svc *corev1.Service) string {
	why := "not asked for any more"
	if _, asks := api.Wants(svc); asks && !s.optedIn(svc) {
		why = fmt.Sprintf("namespace %q is not labelled %s=%s any more", s.Key.Namespace, api.LabelInject, api.InjectEnabled)
	}
	return api.ReadyFacts{Secret: s.Key.Name, Leaf: d.Verdict.Leaf}.Message(why + "; kept, and renewed until it is deleted")
}

func condition(ready bool, reason Reason, message string) *metav1.Condition {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	return &metav1.Condition{Type: api.ConditionReady, Status: status, Reason: string(reason), Message: message}
}

// maxNamesShown bounds how many names a message repeats.
const maxNamesShown = 4

func describeNames(dns []string, ips []netip.Addr) string {
	names := slices.Clone(dns)
	for _, ip := range ips {
		names = append(names, ip.String())
	}
	if n := len(names) - maxNamesShown; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamesShown], ", "), n)
	}
	return strings.Join(names, ", ")
}

// StatusPatch returns a strategic merge patch of a Service's status that gives it
// the condition, or takes it away if want is nil; no patch if have says the same
// already and there are no words to write. Conditions of others stay: the list
// merges by type. The UID makes the patch fail on a Service that was made again
// meanwhile. Words are annotations: the API server takes them with the status, in
// the same write.
func StatusPatch(uid types.UID, have, want *metav1.Condition, words map[string]any, now time.Time) ([]byte, error) {
	metadata := map[string]any{"uid": uid}
	patch := map[string]any{"metadata": metadata}
	if len(words) > 0 {
		metadata["annotations"] = words
	}
	if entry := conditionEntry(have, want, now); entry != nil {
		patch["status"] = map[string]any{"conditions": []any{entry}}
	} else if len(words) == 0 {
		return nil, nil
	}
	return json.Marshal(patch)
}

// conditionEntry returns what is to be written of the condition, or nil.
func conditionEntry(have, want *metav1.Condition, now time.Time) map[string]any {
	var entry map[string]any
	switch {
	case want == nil && have == nil:
	case want == nil:
		entry = map[string]any{"type": api.ConditionReady, "$patch": "delete"}
	case have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message:
	default:
		since := metav1.NewTime(now)
		if have != nil && have.Status == want.Status {
			since = have.LastTransitionTime
		}
		entry = map[string]any{
			"type":               want.Type,
			"status":             want.Status,
			"reason":             want.Reason,
			"message":            want.Message,
			"lastTransitionTime": since,
		}
	}
	return entry
}
