package hostfiles

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Situation is what there is to decide by.
type Situation struct {
	Store *Store
	Now   time.Time
	// Source is what the store is to hold.
	Source Found
	// Here is what it holds, and Previous what it held before.
	Here, Previous Found
	// Access says what mode or owner of a file is not as the store says, or "".
	Access string
	State  State
	// Delay is how long after a switch this host acts, of the action's window.
	Delay time.Duration
	// Pace is the least time between two switches of a store whose certificate is good.
	Pace time.Duration
}

// Step is the next thing that is done for a store.
type Step string

// The steps.
const (
	Wait     Step = "wait"
	Install  Step = "install"   // switch to Decision.Content
	GoBack   Step = "go back"   // the same, to what was there before
	Act      Step = "act"       // run the action
	Dial     Step = "dial"      // look what the address serves
	SetModes Step = "set modes" // give the files mode and owner
)

// Reason is why a store is as it is. It is in the readiness and in a metric.
type Reason string

// The reasons.
const (
	Current       Reason = "Current"       // it holds what the source has, and the program serves it as far as that is known
	InProgress    Reason = "InProgress"    // a switch is being made, and nothing is wrong so far
	SourceMissing Reason = "SourceMissing" // the source has nothing that could be installed
	SourceRefused Reason = "SourceRefused" // what the source has is worse than what is there
	RolledBack    Reason = "RolledBack"    // the program did not survive what the source has: it has its last certificate back
	ActionFailed  Reason = "ActionFailed"  // the action did not succeed, and will be tried again
	Stale         Reason = "Stale"         // the address still serves the certificate of before
	NotServed     Reason = "NotServed"     // the address serves no certificate, or another one
	Locked        Reason = "Locked"        // another process keeps the store
	CannotWrite   Reason = "CannotWrite"   // the store could not be read or written
)

// Ready reports whether nothing needs attention.
func (r Reason) Ready() bool { return r == Current || r == InProgress }

// Decision is what to do, and why.
type Decision struct {
	Step    Step
	Content *Content // of Install and GoBack
	// KeepPrevious: what was held before stays the one to go back to, as what is held was never served.
	KeepPrevious bool
	Reason       Reason
	Message      string
	// Again is when to decide again even if nothing changes; zero: when something does.
	Again time.Time
}

// DefaultPace is the Pace of a host: each switch may restart a program, and whoever writes the source decides how
// often there is another certificate.
const DefaultPace = time.Minute

// avoidFor is how long what was taken back is not tried again.
const avoidFor = 6 * time.Hour

// Spread returns when in a window a host acts: the same each time, and over the hosts evenly.
func Spread(host, store string, window time.Duration) time.Duration {
	if window <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(host + "\x00" + store))
	return time.Duration(h.Sum64()>>1) % window
}

// rules are asked in this order; the first that has a decision decides.
var rules = []func(*Situation) *Decision{goBack, install, dial, act, setModes, report}

// Decide returns the next step for a store.
func Decide(s Situation) Decision {
	for _, rule := range rules {
		if d := rule(&s); d != nil {
			return *d
		}
	}
	return Decision{Step: Wait, Reason: Current, Message: s.holds()}
}

// earlier returns the pair that was there before, with the bundle of now: a CA that clients no longer trust
// does not come back. It is nil if there is none, or if clients would not accept it by now.
func (s *Situation) earlier() *Content {
	if s.Previous.Content == nil || s.Here.Content == nil {
		return nil
	}
	roots := s.Here.Content.Roots
	if s.Source.Content != nil {
		roots = s.Source.Content.Roots
	}
	c := s.Previous.Content.withRoots(s.Store, roots)
	if c.Fault(s.Store, roots, s.Now) != nil {
		return nil
	}
	return c
}

// goBack goes back to what was there if the program does not live with what is there; and again, if
// hostsync was killed before it had.
func goBack(s *Situation) *Decision {
	previous, here := s.earlier(), s.Here.Content
	if previous == nil || here == nil || previous.ID == here.ID {
		return nil
	}
	if sw, avoid := s.State.Switch, s.State.Avoid; sw != nil && sw.Back != "" && avoid != nil && avoid.ID == here.ID {
		return &Decision{Step: GoBack, Content: previous, Reason: RolledBack, Message: sw.Back}
	}
	sw := s.pending()
	if sw == nil || sw.Proven || sw.Before == "" || sw.Back != "" || sw.Verdict != SeenNone && sw.Verdict != SeenOther {
		return nil
	}
	why := fmt.Sprintf("%s served a certificate before, and not %s after the switch and the action (%s): %s", s.Store.Check.Address, s.Store.Check.Timeout, s.Store.Action, sw.what())
	return &Decision{Step: GoBack, Content: previous, Reason: RolledBack, Message: why}
}

// install switches to what the source has, if that is better. It waits for the check of the switch
// before, but for the first one only.
func install(s *Situation) *Decision {
	next := s.Source.Content
	if next == nil || s.Here.Content != nil && next.ID == s.Here.Content.ID || s.avoided(next) || Worse(s.Store, s.Here, next, s.Now) != nil || !s.paced().IsZero() {
		return nil
	}
	sw := s.pending()
	if sw != nil && sw.checking() && sw.Verdict == "" && sw.Attempts <= 1 && s.Here.Content.Fault(s.Store, nil, s.Now) == nil {
		return nil
	}
	return &Decision{
		Step: Install, Content: next, Reason: InProgress, Message: "installing what the source has",
		KeepPrevious: sw != nil && !sw.Proven && s.Previous.Content != nil,
	}
}

// paced returns until when a switch waits because of the last one; zero: it does not.
func (s *Situation) paced() (until time.Time) {
	last := s.State.Switch
	if last == nil || s.Here.Content == nil { // who writes the bundle too can make any content there look bad
		return until
	}
	if end := last.At.Add(s.Pace); s.Now.Before(end) && !s.Now.Before(last.At) { // a clock that was set back does not stop it
		return end
	}
	return until
}

func (s *Situation) avoided(c *Content) bool {
	return s.State.Avoid != nil && s.State.Avoid.ID == c.ID && s.Now.Before(s.State.Avoid.Until)
}

func setModes(s *Situation) *Decision {
	if s.Access == "" {
		return nil
	}
	return &Decision{Step: SetModes, Reason: InProgress, Message: s.Access}
}

// report says what is wrong, when nothing can be done now.
func report(s *Situation) *Decision {
	d := &Decision{Step: Wait}
	if sw := s.pending(); sw != nil {
		sw.say(d)
	}
	next := s.Source.Content
	switch {
	case next != nil && s.avoided(next):
		more := d.Message
		if d.Reason, d.Message = RolledBack, "went back to the certificate of before: "+s.State.Avoid.Why; more != "" {
			d.Message += "; " + more
		}
		d.Again = limit.EarliestSet(d.Again, s.State.Avoid.Until)
	case next == nil:
		d.Reason, d.Message = SourceMissing, fmt.Sprintf("%s: %s", s.Store.From, s.missing())
	case s.Here.Content != nil && next.ID != s.Here.Content.ID && Worse(s.Store, s.Here, next, s.Now) == nil && !s.paced().IsZero():
		until := s.paced()
		d.Reason, d.Message, d.Again = InProgress, fmt.Sprintf("waiting for %s after the last switch", s.Pace), limit.EarliestSet(d.Again, until)
	case s.Here.Content == nil || next.ID != s.Here.Content.ID:
		d.Reason, d.Message = SourceRefused, fmt.Sprintf("%s: %v; %s", s.Store.From, Worse(s.Store, s.Here, next, s.Now), s.holds())
		if next.Leaf != nil && s.Now.Before(next.Leaf.NotBefore) {
			d.Again = limit.EarliestSet(d.Again, next.Leaf.NotBefore)
		}
	case s.Here.Content.Fault(s.Store, s.Here.Content.Roots, s.Now) != nil:
		d.Reason, d.Message = SourceRefused, s.holds()
	}
	if d.Reason == "" {
		return nil
	}
	return d
}

func (s *Situation) missing() string {
	if s.Source.Problem != nil {
		return s.Source.Problem.Error() + "; " + s.holds()
	}
	return "has no files; " + s.holds()
}

// holds says what the store holds.
func (s *Situation) holds() string {
	here := s.Here.Content
	switch {
	case here == nil && s.Here.Problem != nil:
		return "what is there cannot be used: " + s.Here.Problem.Error()
	case here == nil:
		return "nothing is there"
	}
	if err := here.Fault(s.Store, nil, s.Now); err != nil {
		return "what is there stays: " + err.Error()
	}
	if here.Leaf == nil {
		return "the bundle that is there stays"
	}
	return fmt.Sprintf("certificate %s, valid until %s, is there", here.Fingerprint[:8], stamp(here.Leaf.NotAfter))
}
