package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Guarded is condition Guarded of a Service that lists its clients, in the form of -o json. Before the rotator has reported,
// it is empty.
type Guarded struct {
	Status  string `json:"status,omitempty"` // True, False or Unknown
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Outdated: the Service has had other ports since.
	Outdated bool `json:"outdated,omitempty"`
}

// guardedOf returns nil if the Service lists no clients.
func guardedOf(svc *corev1.Service) *Guarded {
	c := api.Condition(svc, api.ConditionGuarded)
	switch {
	case !api.Guards(svc):
		return nil
	case c == nil:
		return &Guarded{}
	}
	return &Guarded{api.Escape(string(c.Status)), api.Escape(c.Reason), api.Escape(c.Message), !state.GuardedIsOfNow(svc)}
}

// Column returns the text of a table: True, or why not.
func (g *Guarded) Column() string {
	switch {
	case g == nil:
		return ""
	case g.Outdated:
		return "Outdated"
	case g.Status == string(corev1.ConditionTrue):
		return g.Status
	}
	return g.Reason
}

// awaited reports whether the rotator is about to report.
func (g *Guarded) awaited() bool {
	return g != nil && (g.Outdated || g.Reason == "" || g.Reason == api.GuardedPending)
}

// checkGuarded returns what the rotator has seen the guarded ports of the Service do to clients that no list names; nothing
// for a Service that lists no clients.
func checkGuarded(s VerifySituation) []Finding {
	g := s.Service.Guarded
	if g == nil {
		return nil
	}
	name := fmt.Sprintf("clients of Service %s/%s: ", s.Service.Namespace, s.Service.Name)
	switch {
	case s.NoRotator != "":
		return []Finding{{VerdictNotSeen, name + s.NoRotator}}
	case g.awaited():
		return []Finding{{VerdictNotSeen, name + "the rotator has not reported yet whether others than those listed are refused"}}
	case g.Status == string(corev1.ConditionTrue):
		return []Finding{{VerdictOK, name + g.Message}}
	case g.Status == string(corev1.ConditionUnknown):
		return []Finding{{VerdictNotSeen, name + g.Reason + ": " + g.Message}}
	}
	return []Finding{{VerdictFailed, name + g.Reason + ": " + g.Message}}
}

// checkStrangers returns what the dialled address did to clients that no list names.
func checkStrangers(s VerifySituation) []Finding {
	switch g := s.Strangers; {
	case g == nil:
		return nil
	case g.Judgement == probe.Refused:
		return []Finding{{VerdictOK, s.Address + ": refuses clients that are not listed"}}
	case g.Judgement == probe.Admitted:
		return []Finding{{VerdictFailed, fmt.Sprintf("%s: admitted a client %s, although the Service lists its clients", s.Address, g.Stranger)}}
	default:
		return []Finding{{VerdictNotSeen, fmt.Sprintf("%s: cannot tell whether a client %s is refused: %s", s.Address, g.Stranger, g.Cause)}}
	}
}
