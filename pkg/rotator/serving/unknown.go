package serving

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// A condition Ready that is False and names no leaf is about a Secret that may be missing or broken, or
// whose certificate the signer no longer reports. The last known leaf is still compared with what pods
// serve, but is no evidence of what the Secret holds.

// leafStays are the reasons without a leaf for which the last known one is still in the Secret: nothing
// is written to it, or it is only the signer's clock that is wrong.
var leafStays = []string{api.ReasonTerminating, api.ReasonClockSkew}

// doubts returns why it is not known what the Secret holds: the reason of Ready, for each of the
// Services; nil if it is known. after is when it is to be evaluated again, 0: only after a change.
func doubts(services []*corev1.Service, p Pace, now time.Time) (reasons []string, after time.Duration) {
	first := ""
	reasons = make([]string, len(services))
	for i, svc := range services {
		ready := api.Condition(svc, api.ConditionReady)
		if ready == nil {
			continue
		}
		if _, named := state.LeafOf(svc); named || ready.Status != metav1.ConditionFalse || slices.Contains(leafStays, ready.Reason) {
			return nil, 0
		}
		if wait := doubtedAt(svc, ready, p).Sub(now); wait > 0 {
			after = max(after, wait)
			continue
		}
		reasons[i] = ready.Reason
		first = cmp.Or(first, ready.Reason)
	}
	if first == "" {
		return nil, after
	}
	for i := range reasons {
		reasons[i] = cmp.Or(reasons[i], first)
	}
	return reasons, after
}

// doubtedAt returns when a condition Ready without a leaf counts. The signer repairs its own Secrets, and
// may succeed in the next attempt. It reports one of another issuer only once it has been broken for a while.
func doubtedAt(svc *corev1.Service, ready *metav1.Condition, p Pace) time.Time {
	if state.ReadyOf(svc).External {
		return ready.LastTransitionTime.Time
	}
	return ready.LastTransitionTime.Add(p.confirmAfter())
}

// unless returns the statement, or that nothing is known if it compares pods with a certificate that the
// Secret may not hold. reason is that of Ready, or empty.
func (s statement) unless(reason string) statement {
	switch s.rule.state {
	case stateCurrent, stateStale, stateForeign, statePropagating, statePending:
	default:
		return s
	}
	if reason != "" {
		s.doubt, s.rule = reason, unknownRule
	}
	return s
}

// unknownRule replaces a rule that compares pods with a certificate.
var unknownRule = servingRule{
	stateNotVerified, nil, metav1.ConditionUnknown, api.ServingNotVerified, "cannot tell whether the certificate in Secret %q is served: ",
	"cannot tell whether the certificates of the pods are served: ", adviceDoubt,
}

func adviceDoubt(s statement) string {
	return "condition " + api.ConditionReady + " is False, " + s.doubt + ", and names no certificate"
}
