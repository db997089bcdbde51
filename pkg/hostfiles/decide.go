package hostfiles

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Situation is the input of Decide.
type Situation struct {
	Store *Store
	Now   time.Time
	// Source is the desired content.
	Source Found
	// Here is the installed content, and Previous the one before it.
	Here, Previous Found
	// Access describes a file whose mode or owner is wrong, or is "".
	Access string
	State  State
	// Delay is the time after a switch at which this host runs the action, within the action's window.
	Delay time.Duration
	// Pace is the minimum time between two switches of a store with a usable certificate.
	Pace time.Duration
}

// Step is the next step for a store.
type Step string

// The steps.
const (
	Wait     Step = "wait"
	Install  Step = "install"   // switch to Decision.Content
	GoBack   Step = "go back"   // switch to the previous content
	Act      Step = "act"       // run the action
	Dial     Step = "dial"      // observe which certificate the address serves
	SetModes Step = "set modes" // set mode and owner of the files
)

// Reason is the status of a store. The readiness and a metric report it.
type Reason string

// The reasons.
const (
	Current       Reason = "Current"       // the store has the content of the source, and no check shows that another certificate is served
	InProgress    Reason = "InProgress"    // a switch is in progress, and nothing has failed
	SourceMissing Reason = "SourceMissing" // the source has no usable files
	SourceRefused Reason = "SourceRefused" // the source is worse than the installed files, or both have expired
	RolledBack    Reason = "RolledBack"    // the program did not serve the new certificate: the previous one is installed again
	ActionFailed  Reason = "ActionFailed"  // the action failed, and will be retried
	Stale         Reason = "Stale"         // the address still serves the previous certificate
	NotServed     Reason = "NotServed"     // the address serves no certificate, or another one
	Locked        Reason = "Locked"        // another process has locked the store
	CannotWrite   Reason = "CannotWrite"   // the store could not be read or written
)

// Ready reports whether nothing needs attention.
func (r Reason) Ready() bool { return r == Current || r == InProgress }

// Decision is the next step, with its reason.
type Decision struct {
	Step    Step
	Content *Content // of Install and GoBack
	// KeepPrevious keeps the link previous: the installed content was never served, so a rollback skips it.
	KeepPrevious bool
	Reason       Reason
	Message      string
	// Again is when to decide again even if nothing changes; zero if only a change requires it.
	Again time.Time
}

// DefaultPace is the default of Situation.Pace. Each switch may restart a program, so whoever writes the source
// must not decide how often that happens.
const DefaultPace = time.Minute

// avoidFor is the time for which a content is not installed again after a rollback.
const avoidFor = 6 * time.Hour

// Spread returns the delay of a host within a window. It is deterministic, and evenly distributed over hosts.
func Spread(host, store string, window time.Duration) time.Duration {
	if window <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(host + "\x00" + store))
	return time.Duration(h.Sum64()>>1) % window
}

// rules are evaluated in this order; the first that returns a decision wins.
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

// earlier returns the previous pair with the current bundle, so that a distrusted CA does not return. It is nil
// if there is no previous pair, or clients would no longer accept it.
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

// goBack rolls back if the program does not serve the new certificate. It also resumes a rollback that a crash
// of hostsync interrupted.
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
	why := fmt.Sprintf("%s served a certificate before the switch, but not the new one within %s of the action (%s): %s", s.Store.Check.Address, s.Store.Check.Timeout, s.Store.Action, sw.observation())
	return &Decision{Step: GoBack, Content: previous, Reason: RolledBack, Message: why}
}

// install switches to the content of the source, unless that is worse. It waits for the first verdict on the last
// switch, but not for verdicts after further attempts.
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
		Step: Install, Content: next, Reason: InProgress, Message: "installing the files of the source",
		KeepPrevious: sw != nil && !sw.Proven && s.Previous.Content != nil,
	}
}

// paced returns the time until which Pace delays the next switch; zero if it does not.
func (s *Situation) paced() (until time.Time) {
	last := s.State.Switch
	// Only missing content is not paced: whoever writes the bundle could make any content fail Fault.
	if last == nil || s.Here.Content == nil {
		return until
	}
	if end := last.At.Add(s.Pace); s.Now.Before(end) && !s.Now.Before(last.At) { // a clock that was set back does not block the switch
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

// report returns the status while no step is possible.
func report(s *Situation) *Decision {
	d := &Decision{Step: Wait}
	if sw := s.pending(); sw != nil {
		sw.describe(d)
	}
	next := s.Source.Content
	switch {
	case next != nil && s.avoided(next):
		more := d.Message
		if d.Reason, d.Message = RolledBack, "rolled back to the previous certificate: "+s.State.Avoid.Why; more != "" {
			d.Message += "; " + more
		}
		d.Again = limit.EarliestSet(d.Again, s.State.Avoid.Until)
	case next == nil:
		d.Reason, d.Message = SourceMissing, fmt.Sprintf("%s: %s", s.Store.From, s.missing())
	case s.Here.Content != nil && next.ID != s.Here.Content.ID && Worse(s.Store, s.Here, next, s.Now) == nil && !s.paced().IsZero():
		until := s.paced()
		d.Reason, d.Message, d.Again = InProgress, fmt.Sprintf("waiting: switches must be at least %s apart", s.Pace), limit.EarliestSet(d.Again, until)
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

// holds describes the installed content.
func (s *Situation) holds() string {
	here := s.Here.Content
	switch {
	case here == nil && s.Here.Problem != nil:
		return "the installed files cannot be used: " + s.Here.Problem.Error()
	case here == nil:
		return "nothing is installed"
	}
	if err := here.Fault(s.Store, nil, s.Now); err != nil {
		return "the installed files stay: " + err.Error()
	}
	if here.Leaf == nil {
		return "a bundle is installed"
	}
	return fmt.Sprintf("certificate %s, valid until %s, is installed", here.Fingerprint[:8], stamp(here.Leaf.NotAfter))
}
