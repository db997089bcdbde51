package hostfiles

import (
	"fmt"
	"time"
)

// pending is the switch to the installed content. Its action may still be due, and the address may not serve the
// leaf yet.
type pending struct {
	*Switch
	store *Store
	delay time.Duration
}

// Times between attempts.
const (
	dialEvery    = time.Second // until the check has a verdict
	dialLater    = time.Minute // after a verdict against the certificate
	firstBackoff = 10 * time.Second
	lastBackoff  = 10 * time.Minute
)

// backoff returns the delay after a number of attempts.
func backoff(attempts int) time.Duration {
	return min(firstBackoff<<min(max(attempts-1, 0), 16), lastBackoff)
}

// pending returns the switch that installed the content, or nil if no switch did.
func (s *Situation) pending() *pending {
	if s.State.Switch != nil && s.Here.Content != nil && s.State.Switch.To == s.Here.Content.ID {
		return &pending{s.State.Switch, s.Store, s.Delay}
	}
	return nil
}

// dial observes the address until it serves the leaf: every second until the verdict, and then every minute.
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
		next = end // this observation decides
	}
	if s.Now.Before(next) {
		if sw.Verdict != "" {
			return nil
		}
		d.Step, d.Again = Wait, next
	}
	if sw.Attempts > 1 || sw.Verdict != "" {
		again := d.Again
		sw.describe(d)
		d.Again = again
	}
	return d
}

// act runs the action when it is due, and again if the address still serves the old certificate.
func act(s *Situation) *Decision {
	sw := s.pending()
	if sw == nil || s.Store.Action.None() || sw.Acted && (sw.Proven || sw.Seen != SeenOld) || s.Now.Before(sw.actAt()) {
		return nil
	}
	return &Decision{Step: Act, Reason: InProgress, Message: s.Store.Action.String()}
}

// actAt returns when the action runs next: not before the check of the last attempt is over.
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

// describe sets reason and message by the state of the action and the check.
func (p *pending) describe(d *Decision) {
	switch {
	case p.Attempts == 0 && !p.Acted:
		d.Reason, d.Message, d.Again = InProgress, "waiting for this host's turn to "+p.store.Action.String(), p.actAt()
	case p.checking() && p.Seen == "":
		return
	case p.checking() && p.Seen == SeenOld:
		d.Reason, d.Message = Stale, fmt.Sprintf("%s still serves %s", p.store.Check.Address, p.observation())
		if !p.store.Action.None() {
			d.Again = p.actAt()
		}
	case p.checking():
		d.Reason, d.Message = NotServed, fmt.Sprintf("%s does not serve the certificate: %s", p.store.Check.Address, p.observation())
	case !p.Acted:
		d.Reason, d.Message, d.Again = ActionFailed, fmt.Sprintf("%s: %s", p.store.Action, p.Failure), p.actAt()
	}
}

// observation describes the served certificate and the failure of the action.
func (sw *Switch) observation() string {
	text := map[Seen]string{SeenNone: sw.Detail, SeenOld: "the previous certificate", SeenOther: "another certificate, " + sw.Detail}[sw.Seen]
	if sw.Failure != "" {
		text += "; the action failed: " + sw.Failure
	}
	return text
}
