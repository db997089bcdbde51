package signer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// memberCondition is the Ready condition of a Service that has a part in the
// Secret.
func (s settled) memberCondition(svc *corev1.Service) *metav1.Condition {
	switch {
	case s.problem.Reason == reasonTerminating, s.problem.Reason != "" && s.problem.Reason != reasonWaiting && !s.optedIn(svc):
		// Without the opt-in it names the Secret, or the Service would have no part in it
		// next time.
		return condition(false, s.problem.Reason, api.ReadyFacts{Secret: s.Key.Name}.Message(s.problem.Message+api.KeptText(s.kept(svc))))
	case s.problem.Reason != "" && s.problem.Reason != reasonWaiting:
		return condition(false, s.problem.Reason, s.problem.Message)
	case s.problem.Reason == "" && s.d.Retained:
		return condition(true, reasonRetained, s.retainedMessage(svc))
	case len(s.d.Waiting[svc.UID]) > 0:
		return condition(false, reasonWaiting, s.waitingMessage(svc))
	}
	return condition(true, reasonIssued, s.issuedMessage(svc))
}

// RefusedReason returns the reason of a Service that api.Parse, api.Merge or api.MergeForPod has
// refused.
func RefusedReason(err error) Reason { return ReasonOf(err, reasonInvalid) }

// refusedMessage says what is wrong, and for a Service that has a certificate
// what becomes of that.
func (s settled) refusedMessage(m api.Member) string {
	message := m.Err.Error()
	switch {
	case !s.Secret.usable(s.Now) || !s.Secret.OwnedBy(m.Service.UID):
	case s.Secret.DeletionTimestamp != nil:
		message += api.KeptPairText(s.Key.Name, "is not renewed: the Secret is being deleted")
	case s.d.Retained:
		message += api.KeptPairText(s.Key.Name, "is kept, and renewed with what it has")
	default:
		message += api.KeptPairText(s.Key.Name, "keeps this Service's names")
	}
	return message
}

func (s settled) issuedMessage(svc *corev1.Service) string {
	return s.issuedFacts().Message(describeNames(s.d.Wanted.DNSNames, s.d.Wanted.IPs) + s.shortenedText() + api.KeptText(s.kept(svc)))
}

// shortenedText says that the certificate lives shorter than it was asked for, and why;
// "" if it does not.
func (s settled) shortenedText() string {
	has, asked := s.d.Wanted.Params.Duration, s.d.Asked.Params.Duration
	if has >= asked {
		return ""
	}
	return fmt.Sprintf("; its lifetime is %s and not %s, because it holds ClusterIPs", has, asked)
}

// waitingMessage says which names of the Service wait, for what, and what there
// is meanwhile.
func (s settled) waitingMessage(svc *corev1.Service) string {
	have := "no certificate"
	if !nameless(s.d.Wanted) {
		have = describeNames(s.d.Wanted.DNSNames, s.d.Wanted.IPs)
	}
	return s.issuedFacts().Message(fmt.Sprintf("%s; waiting: %s: clients may still hold a root that does not permit these names, and would reject the whole certificate; they are added once every older root has retired%s",
		have, describeNames(s.d.Waiting[svc.UID], nil), api.KeptText(s.kept(svc))))
}

// podKeysMessage says which names the certificates of the Service's pods have.
func podKeysMessage(r api.Request) string {
	names := allNames(r.DNSNames, r.IPs)
	shown := min(len(names), maxNamesShown)
	return api.PodKeysText(names[:shown], len(names)-shown)
}

func (s settled) issuedFacts() api.ReadyFacts {
	return api.ReadyFacts{Secret: s.Key.Name, Request: s.d.Asked.Hash(), Leaf: s.leaf}
}

func (s settled) retainedMessage(svc *corev1.Service) string {
	why := "no longer requested"
	if _, asks := api.Wants(svc); asks && !s.optedIn(svc) {
		why = s.labelText("no longer has")
	}
	return api.ReadyFacts{Secret: s.Key.Name, Leaf: s.leaf}.Message(why + "; kept, and renewed until it is deleted" + api.KeptText(s.kept(svc)))
}

func condition(ready bool, reason Reason, message string) *metav1.Condition {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	if len(message) > api.MaxMessage { // of others, who do not say facts
		message = api.Shorten(message, maxForeignText)
	}
	return &metav1.Condition{Type: api.ConditionReady, Status: status, Reason: string(reason), Message: message}
}

// maxForeignText is how many characters a condition repeats of an error of the API server or
// of a CA elsewhere that is longer than a condition's message may be.
const maxForeignText = 1024

// maxNamesShown bounds how many names a message repeats.
const maxNamesShown = 4

// quoted returns the first of the names in order, and how many more there are.
func quoted(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if n := len(names) - maxNamesShown; n > 0 {
		return fmt.Sprintf("%q and %d more", names[:maxNamesShown], n)
	}
	return fmt.Sprintf("%q", names)
}

func describeNames(dns []string, ips []netip.Addr) string {
	names := allNames(dns, ips)
	if n := len(names) - maxNamesShown; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamesShown], ", "), n)
	}
	return strings.Join(names, ", ")
}

func allNames(dns []string, ips []netip.Addr) []string {
	names := slices.Clone(dns)
	for _, ip := range ips {
		names = append(names, ip.String())
	}
	return names
}
