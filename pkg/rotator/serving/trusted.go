package serving

import (
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// kubeletLate is the maximum delay with which a kubelet begins to refresh a certificate after it is
// due.
const kubeletLate = 5 * time.Minute

// trusted evaluates pods with their own keys, which do not share a leaf.
type trusted struct {
	id    string    // of probe.Trust
	since time.Time // when the CA got that state
}

// follow returns what is trusted now. since is taken from the CA's status, so that a new leader
// gets the same.
func (t trusted) follow(trust probe.Trust, now time.Time) trusted {
	if t.id == trust.ID {
		return t
	}
	since := trust.Since
	if since.IsZero() || since.After(now) {
		since = now.Truncate(time.Second)
	}
	return trusted{trust.ID, since}
}

// state implements standard. demanded is what the certificate must be.
//
// A leaf of an older CA generation, or without one of the names, is replaced at its next refresh,
// which cannot be brought forward. Only a leaf that is served after that is stale, or one that
// clients no longer accept.
func (t trusted) state(a probe.Answer, demanded probe.Demand, p Pace) State {
	switch {
	case a.Kind == probe.Plaintext:
		return statePlaintext
	case a.Kind == probe.NotVerified:
		return stateNotVerified
	case a.Kind == probe.NoAnswer && a.At.Sub(a.Since) < p.confirmAfter():
		return statePending
	case a.Kind == probe.NoAnswer:
		return stateUnreachable
	case !t.isCurrent(a, demanded):
		return statePending
	case !a.Ours:
		return stateForeign
	case !a.At.Before(t.dueOf(a).Add(p.Propagation)):
		return stateStale
	case !a.PodKey.Newest, a.PodKey.Lacks != "":
		return statePropagating
	}
	return stateCurrent
}

// isCurrent reports whether the answer was evaluated with the current trust and names.
func (t trusted) isCurrent(a probe.Answer, demanded probe.Demand) bool {
	return a.PodKey != nil && a.PodKey.Trust == t.id && a.PodKey.Demanded == demanded
}

// linked implements standard: by PodKeyResult.Verifies.
func (trusted) linked(probe.Answer) bool { return true }

// dueOf returns when the pod's files should have had another certificate than the shown one: when
// the kubelet refreshes it, or when clients ceased to accept it.
func (t trusted) dueOf(a probe.Answer) time.Time {
	due := a.PodKey.RefreshAt.Add(kubeletLate)
	if !a.PodKey.Verifies {
		due = limit.Earliest(due, t.since)
	}
	return due
}

// overdue implements standard.
func (t trusted) overdue(c consumer, p Pace) (since time.Time, distrusted bool) {
	for _, a := range c.answers {
		if t.state(a, c.endpoint.demanded[a.Port], p) != stateStale {
			continue
		}
		due := t.dueOf(a)
		if since.IsZero() || due.Before(since) {
			since = due
		}
		distrusted = distrusted || due.Before(a.PodKey.RefreshAt)
	}
	return since.Truncate(time.Second), distrusted
}

// regularly implements standard. The kubelet replaces the certificate at a known time. The pod is
// dialled when that should have happened, and otherwise after the interval.
func (t trusted) regularly(c consumer, state State, p Pace) time.Time {
	last, _ := c.last()
	if last.At.Before(c.seen) {
		return limit.Latest(c.seen.Add(c.jitter(c.seen, 0, p.Pause/5)), last.At.Add(p.Pause))
	}
	at := c.rarely(last.At, p)
	switch state {
	case stateCurrent, statePropagating, statePlaintext:
	case statePending:
		at = last.At.Add(p.Pause)
	default:
		lasted := last.At.Sub(last.Since)
		if state == stateStale {
			since, _ := t.overdue(c, p)
			lasted = last.At.Sub(since.Add(p.Propagation))
		}
		if wait := max(p.Pause, lasted); wait*5/4 < p.Interval {
			at = last.At.Add(c.jitter(last.At, wait, wait/2))
		}
	}
	for _, a := range c.answers {
		if !t.isCurrent(a, c.endpoint.demanded[a.Port]) {
			continue
		}
		if due := t.dueOf(a).Add(p.Propagation); due.After(last.At) {
			at = limit.Earliest(at, due.Add(c.jitter(due, 0, p.Pause)))
		}
	}
	return at
}
