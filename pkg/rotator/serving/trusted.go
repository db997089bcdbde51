package serving

import (
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// kubeletLate is how long after the moment that it was asked to a kubelet begins to replace
// a certificate whose key it made, at most.
const kubeletLate = 5 * time.Minute

// trusted is what pods with keys of their own are judged by. No leaf is what all of them
// should serve.
type trusted struct {
	id    string    // of the probe.Trust
	since time.Time // when it became that
}

// follow returns what is trusted now. since is by what the CA's status says: a new leader
// finds the same.
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

// state implements standard. demanded are the names that the certificate must have.
//
// A leaf that an older generation signed, or that lacks a name, is replaced when it is
// refreshed, which nobody can hasten. Only one that is still served after that is stale, and
// one that clients do not accept any more.
func (t trusted) state(a probe.Answer, demanded string, p Pace) State {
	switch {
	case a.Kind == probe.Plaintext:
		return statePlaintext
	case a.Kind == probe.NotVerified:
		return stateNotVerified
	case a.Kind == probe.NoAnswer && a.At.Sub(a.Since) < p.settle():
		return statePending
	case a.Kind == probe.NoAnswer:
		return stateUnreachable
	case !t.judged(a, demanded):
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

// judged reports whether the answer is a certificate that was judged by what is asked now.
func (t trusted) judged(a probe.Answer, demanded string) bool {
	return a.PodKey != nil && a.PodKey.Trust == t.id && a.PodKey.Demanded == demanded
}

// dueOf returns when the files of the pod should have held another certificate than the one
// that it has shown: when the kubelet has refreshed it, or when clients ceased to accept it.
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

// regularly implements standard. The kubelet replaces the certificate at a time that is
// known, and not before. So the pod is dialled when that should have been seen, and
// otherwise after the interval.
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
		if !t.judged(a, c.endpoint.demanded[a.Port]) {
			continue
		}
		if due := t.dueOf(a).Add(p.Propagation); due.After(last.At) {
			at = limit.Earliest(at, due.Add(c.jitter(due, 0, p.Pause)))
		}
	}
	return at
}
