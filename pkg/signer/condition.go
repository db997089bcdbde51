package signer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// memberCondition returns the Ready condition of a Service that shares the Secret.
func (s applied) memberCondition(svc *corev1.Service) *state.Condition {
	kept := s.kept(svc)
	named := state.Ready{Secret: s.Key.Name}.WithKept(kept.Names)
	issued := named
	issued.Request, issued.Leaf = s.d.Asked.Hash(), s.leaf
	switch {
	case s.problem.Reason == reasonTerminating, s.problem.Reason != "" && s.problem.Reason != reasonWaiting && !s.optedIn(svc):
		// The condition names the Secret. Without the opt-in, a Service whose condition does not
		// would no longer share it.
		return condition(false, s.problem.Reason, s.ofSecret(s.problem.Message, kept, ""), named)
	case s.problem.Reason != "" && s.problem.Reason != reasonWaiting:
		return condition(false, s.problem.Reason, s.problem.Message, state.Ready{})
	case s.problem.Reason == "" && s.d.Retained:
		issued.Request = ""
		return condition(true, reasonRetained, s.ofSecret(s.retainedText(svc), kept, s.leaf), issued)
	case len(s.d.Waiting[svc.UID]) > 0:
		return condition(false, reasonWaiting, s.ofSecret(s.waitingText(svc), kept, s.leaf), issued)
	}
	return condition(true, reasonIssued, s.ofSecret(describeNames(s.d.Wanted.DNSNames, s.d.Wanted.IPs)+s.shortenedText(), kept, s.leaf), issued)
}

// ofSecret returns the message about the Secret: the text, the other Secrets that are kept, and the
// fingerprint of its leaf, which people compare with the one that a server presents.
func (s applied) ofSecret(text string, kept Kept, leaf string) string {
	text = fmt.Sprintf("Secret %q: %s%s", s.Key.Name, text, keptText(kept))
	if leaf != "" {
		text += " (leaf sha256:" + leaf + ")"
	}
	return text
}

// keptText names the Secrets that a Service requested before and still owns; "" if there are none.
func keptText(kept Kept) string {
	if kept.All == 0 {
		return ""
	}
	return "; kept from before, and renewed until deleted: " + quoted(kept.Names, kept.All)
}

// RefusedReason returns the reason of a Service that api.Parse, api.Merge or api.MergeForPod has
// refused.
func RefusedReason(err error) Reason { return ReasonOf(err, reasonInvalid) }

// refused returns the Ready condition of a Service whose request is not valid. The message has
// the error, and what happens to a certificate that the Service has.
func (s applied) refused(m api.Member) *state.Condition {
	message, reason := m.Err.Error(), RefusedReason(m.Err)
	if !s.Secret.usable(s.Now) || !s.Secret.OwnedBy(m.Service.UID) {
		return condition(false, reason, message, state.Ready{})
	}
	becomes := "keeps this Service's names"
	switch {
	case s.Secret.DeletionTimestamp != nil:
		becomes = "is not renewed: the Secret is being deleted"
	case s.d.Retained:
		becomes = "is kept, and renewed without changes"
	}
	has := state.Ready{Secret: s.Key.Name}
	if s.d.Foreign == "" { // so that pods are compared with it
		has.Leaf = s.Secret.Leaf.Fingerprint
	}
	return condition(false, reason, fmt.Sprintf("%s; the certificate in Secret %q %s", message, s.Key.Name, becomes), has)
}

// shortenedText explains a lifetime that is shorter than requested; "" if it is not.
func (s applied) shortenedText() string {
	has, asked := s.d.Wanted.Params.Duration, s.d.Asked.Params.Duration
	if has >= asked {
		return ""
	}
	return fmt.Sprintf("; its lifetime is %s and not %s, because it holds ClusterIPs", has, asked)
}

// waitingText describes the present certificate, and the names of the Service that are not in it
// yet.
func (s applied) waitingText(svc *corev1.Service) string {
	have := "no certificate"
	if !hasNoNames(s.d.Wanted) {
		have = describeNames(s.d.Wanted.DNSNames, s.d.Wanted.IPs)
	}
	return fmt.Sprintf("%s; waiting: %s: clients may still hold a root that does not permit these names, and would reject the whole certificate; they are added once every older root has retired",
		have, describeNames(s.d.Waiting[svc.UID], nil))
}

func (s applied) retainedText(svc *corev1.Service) string {
	why := "no longer requested"
	if api.IsExternal(svc) {
		why = "of servingcert until its new issuer writes it"
	}
	if _, asks := api.Wants(svc); asks && !s.optedIn(svc) {
		why = s.labelText("no longer has")
	}
	return why + "; kept, and renewed until it is deleted"
}

func condition(ready bool, reason Reason, message string, s state.Ready) *state.Condition {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	if len(message) > api.MaxMessage { // it contains the text of another component
		message = api.Shorten(message, maxForeignText)
	}
	return state.Say(metav1.Condition{Type: api.ConditionReady, Status: status, Reason: string(reason), Message: message}, s)
}

// maxForeignText is the most characters of a message with an error of the API server or of a
// remote CA that is longer than api.MaxMessage.
const maxForeignText = 1024
