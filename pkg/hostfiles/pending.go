package hostfiles

import (
	"fmt"
	"time"
)

// pending is the switch that brought what a store holds, as far as it is not finished: its action may be due,
// and the address may not serve the leaf yet.
type pending struct {
	*Switch
	store *Store
	delay time.Duration
}

// Times between attempts.
const (
	dialEvery    = time.Second // while a certificate is to appear
	dialLater    = time.Minute // once it has not
	firstBackoff = 10 * time.Second
	lastBackoff  = 10 * time.Minute
)

// backoff returns how long to wait after so many attempts.
func backoff(attempts int) time.Duration {
	return min(firstBackoff<<min(max(attempts-1, 0), 16), lastBackoff)
}

// pending returns the switch to what is there, or nil: what is there came otherwise.
func (s *Situation) pending() *pending {
	if s.State.Switch != nil && s.Here.Content != nil && s.State.Switch.To == s.Here.Content.ID {
		return &pending{s.State.Switch, s.Store, s.Delay}
	}
	return nil
}

// dial looks at the address until it serves the leaf: often while that is expected, and seldom after.
func dial(s *Situation) *Decision {
	sw := s.pending()
	if sw == nil || !sw.checking() {
		return nil
	}
	d := &Decision{Step: Dial, Reason: InProgress, Message: "waiting for " + s.Store.Check.Address + " to serve the certificate"}
	next := sw.SeenAt.Add(dialEvery)
	if sw.Verdict != "" {
		next = sw.SeenAt.Add(dialLater)
	} else if end := sw.deadline(s.Store); next.After(end) {
		next = end // the look that decides
	}
	if s.Now.Before(next) {
		if sw.Verdict != "" {
			return nil
		}
		d.Step, d.Again = Wait, next
	}
	if sw.Attempts > 1 || sw.Verdict != "" {
		again := d.Again
		sw.say(d)
		d.Again = again
	}
	return d
}

// act runs the action that is due, and one that seems to have done nothing again.
func act(s *Situation) *Decision {
	sw := s.pending()
	if sw == nil || s.Store.Action.None() || sw.Acted && (sw.Proven || sw.Seen != SeenOld) || s.Now.Before(sw.actAt()) {
		return nil
	}
	return &Decision{Step: Act, Reason: InProgress, Message: s.Store.Action.String()}
}

// actAt returns when the action is run next: after what the last attempt has done is known.
func (p *pending) actAt() time.Time {
	switch {
	case p.Attempts == 0 && p.Back != "":
		return p.At
	case p.Attempts == 0:
		return p.At.Add(p.delay)
	}
	at := p.ActedAt.Add(backoff(p.Attempts))
	if p.checking() && at.Before(p.deadline(p.store)) {
		return p.deadline(p.store)
	}
	return at
}

// checking reports whether the leaf is expected at the address.
func (p *pending) checking() bool {
	return !p.Proven && p.store.Check != nil && (p.Acted || p.Attempts > 0)
}

// say says how far the action and the check are.
func (p *pending) say(d *Decision) {
	switch {
	case p.Attempts == 0 && !p.Acted:
		d.Reason, d.Message, d.Again = InProgress, "waiting for this host's turn to "+p.store.Action.String(), p.actAt()
	case p.checking() && p.Seen == "":
		return
	case p.checking() && p.Seen == SeenOld:
		d.Reason, d.Message = Stale, fmt.Sprintf("%s still serves %s", p.store.Check.Address, p.what())
		if !p.store.Action.None() {
			d.Again = p.actAt()
		}
	case p.checking():
		d.Reason, d.Message = NotServed, fmt.Sprintf("%s does not serve the certificate: %s", p.store.Check.Address, p.what())
	case !p.Acted:
		d.Reason, d.Message, d.Again = ActionFailed, fmt.Sprintf("%s: %s", p.store.Action, p.Failure), p.actAt()
	}
}

// what says in a few words what was seen, and what the action said.
func (sw *Switch) what() string {
	text := map[Seen]string{SeenNone: sw.Detail, SeenOld: "the certificate of before", SeenOther: "another certificate, " + sw.Detail}[sw.Seen]
	if sw.Failure != "" {
		text += "; the action failed: " + sw.Failure
	}
	return text
}
