package ca

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// The states of the CA and the steps between them:
//
//	Stable ──Prepare──► Wait ──Trusted, Promote──► Reissue, Retire ──Retire──► Stable
//
// Each step is one write to the CA Secret, and the next is decided from what is
// stored then: a crash anywhere resumes, and a step that was taken is not taken
// again.

// Trust is what the trust status says: which bundle the targets are to hold, and
// how many do.
type Trust struct {
	BundleHash                          string
	Targets, Holding, Pending, Refusing int
	NotHolding                          string // for people
}

// succeed decides which step is next, and what is waited for. The first rule that
// has one decides.
func succeed(d *Decision, o Observed) {
	if o.ClockErr != nil || d.Reason == ReasonNotYetValid {
		return // no step by a clock that is wrong
	}
	rules := []func(*Decision, Observed){distrust, raise, promote, prepare, refuse, retire}
	for _, rule := range rules {
		if rule(d, o); d.Step.Kind != "" {
			return
		}
	}
}

// distrust leaves every earlier generation at once, a prepared one too: it lay in
// the same Secret.
func distrust(d *Decision, o Observed) {
	if o.Request.open(d.State.Rotation) && o.Request.Mode == api.RotateDistrust {
		d.Step = o.freshStep("all before is distrusted: " + o.Request.Reason)
	}
}

// freshStep starts anew: with the CA elsewhere if that is where it is. Without an
// answer from there it is no step.
func (o Observed) freshStep(why string) Step {
	if o.HasRemote && (o.Remote == nil || o.Remote.check(o) != nil) {
		return Step{}
	}
	return Step{Kind: StepFresh, Why: why, Candidate: o.Remote}
}

// raise lifts the mark of the generation that signs before it is used up.
func raise(d *Decision, o Observed) {
	g := d.State.signing()
	if d.State.raised(o.Now, o.MaxDuration).signing().UsedUntil.After(g.UsedUntil) {
		d.Step = Step{Kind: StepRaise}
		return
	}
	if g.UsedUntil.Before(g.ends()) {
		d.lookAt(g.raiseAt(o.MaxDuration))
	}
}

// promote lets the generation that waits sign, once its root is trusted.
func promote(d *Decision, o Observed) {
	if !d.State.waiting() {
		return
	}
	signing, newest := d.State.signing(), d.State.newest()
	deadline := signing.ends().Add(-o.Soak)
	soaked := newest.TrustedAt.Add(o.Soak)
	missing := o.untrusted(d.State.Bundle(o.Now).Hash(), newest.Number)
	switch {
	case !o.Now.Before(deadline):
		d.Step = Step{Kind: StepPromote, Why: "the one before ends at " + clock(signing.ends()) + ": there is no time to wait"}
		return
	case missing != "":
		d.Waiting = missing
	case newest.TrustedAt.IsZero():
		d.Step = Step{Kind: StepTrusted, Why: fmt.Sprintf("%d of %d targets hold its root", o.Trust.Holding, o.Trust.Targets)}
		return
	case o.Now.Before(soaked):
		d.Waiting = "every target holds the new root; pods get it until " + clock(soaked)
		d.lookAt(soaked)
	default:
		d.Step = Step{Kind: StepPromote, Why: "its root is trusted everywhere"}
		return
	}
	d.lookAt(deadline)
}

// untrusted says which targets are not known to hold the bundle, or nothing.
func (o Observed) untrusted(bundleHash string, generation int) string {
	t := o.Trust
	progress := fmt.Sprintf("%d of %d targets hold the new root", t.Holding, t.Targets)
	switch {
	case t.BundleHash == "":
		return fmt.Sprintf("ConfigMap %s does not say that targets hold the bundle: is the rotator running?", api.TrustStatusName)
	case t.BundleHash != bundleHash:
		return "the rotator has not taken up the new bundle yet"
	case t.Pending > 0, t.Refusing > 0 && o.Request.PromoteDespite != generation:
		text := progress + "; not: " + strings.ReplaceAll(t.NotHolding, "\n", "; ")
		if t.Pending == 0 {
			text += fmt.Sprintf(". To go on without those: kubectl servingcert rotate-ca --proceed %d", generation)
		}
		return text
	}
	return ""
}

// prepare makes the next generation, when something asks for one.
func prepare(d *Decision, o Observed) {
	plan := o.plan(d)
	switch {
	case d.State.waiting():
		if plan.Kind != "" && o.Request.open(d.State.Rotation) {
			d.Waiting += fmt.Sprintf(". Then rotation %q follows", o.Request.Reason)
		}
	case plan.Kind != "":
		d.Step = plan
	}
}

// plan returns the step that would make the next generation, zero if nothing asks
// for one.
func (o Observed) plan(d *Decision) Step {
	newest := d.State.newest()
	if o.HasRemote || newest.Origin == OriginRemote {
		return o.planRemote(d)
	}
	if step := o.planImport(d); step.Kind != "" {
		return step
	}
	if o.asksForOverlap(d.State) && (o.Request.Mode == api.RotateForce || o.Now.After(newest.ends()) || !d.State.ladderFull(o.Now)) {
		return Step{Kind: StepPrepare, Why: "asked for: " + o.Request.Reason, Answers: true}
	}
	if newest.Origin == OriginImport {
		if end := newest.ends(); !o.Now.Before(end.Add(-pki.Lifetime(newest.Issuer()) / 3)) {
			d.warn(WarnEnding, "the CA that was imported, %s, ends at %s; it is not replaced unasked: bring another, or ask for one made here with kubectl servingcert rotate-ca",
				newest.name(), clock(end))
		} else {
			d.lookAt(end.Add(-pki.Lifetime(newest.Issuer()) / 3))
		}
		if missing := newest.misses(o.Wanted); len(missing) > 0 {
			d.warn(WarnConstraints, "the flags permit %s, and the CA that was imported does not: such names stay out of certificates", strings.Join(missing, ", "))
		}
		return Step{}
	}
	return o.planOwn(d)
}

// asksForOverlap reports whether a person asked for an ordinary succession.
func (o Observed) asksForOverlap(s *State) bool {
	return o.Request.open(s.Rotation) && (o.Request.Mode == api.RotateOverlap || o.Request.Mode == api.RotateForce)
}

// planOwn replaces a CA that was made here: in the last third of its life, and
// when it does not permit what the flags do. The names that it permits beyond
// that go with it.
func (o Observed) planOwn(d *Decision) Step {
	newest := d.State.newest()
	due := newest.Root.NotAfter.Add(-pki.Lifetime(newest.Root) / 3)
	if missing := newest.misses(o.Wanted); len(missing) > 0 {
		return Step{Kind: StepPrepare, Why: "the flags permit " + strings.Join(missing, ", ")}
	}
	if o.Now.Before(due) {
		d.lookAt(due)
		return Step{}
	}
	why := "less than a third of the life of " + newest.name() + " is left"
	// Clients that hold only the oldest root would be left out. That can wait for
	// as long as a new one can still be trusted before this one ends.
	last := newest.ends().Add(-2*o.Soak - markSlack)
	if d.State.ladderFull(o.Now) && o.Now.Before(last) {
		d.warn(WarnLadder, "a new generation is due (%s) and waits: %s. It comes then, or at %s", why, d.State.leftOut(o.Now), clock(last))
		d.lookAt(last)
		return Step{}
	}
	return Step{Kind: StepPrepare, Why: why}
}

// planImport takes what a person brings, once.
func (o Observed) planImport(d *Decision) Step {
	err := o.ImportErr
	if o.Import != nil {
		if o.Import.fingerprint() == d.State.Import {
			return Step{}
		}
		if err = o.Import.check(o); err == nil {
			err = d.State.canFollow(*o.Import)
		}
		if err == nil && d.State.ladderFull(o.Now) {
			err = errors.New(d.State.leftOut(o.Now) + ": it is imported then")
		}
	}
	if err != nil {
		d.warn(WarnImport, "Secret %s is not imported: %v", api.CAImportName, err)
		return Step{}
	}
	if o.Import == nil {
		return Step{}
	}
	return Step{Kind: StepPrepare, Why: "imported from Secret " + api.CAImportName, Candidate: o.Import}
}

// planRemote follows a CA that is elsewhere, to it and away from it.
func (o Observed) planRemote(d *Decision) Step {
	newest := d.State.newest()
	switch {
	case !o.HasRemote:
		return Step{Kind: StepPrepare, Why: "the CA is not elsewhere any more (--cfssl-url)"}
	case o.Remote == nil:
		d.warn(WarnRemote, "%v", o.RemoteErr)
		return Step{}
	case o.Remote.generation().Issuer().Equal(newest.Issuer()):
		return Step{}
	}
	err := o.Remote.check(o)
	if err == nil {
		err = d.State.canFollow(*o.Remote)
	}
	if err != nil {
		d.warn(WarnRemote, "the CA elsewhere cannot be used: %v", err)
		return Step{}
	}
	return Step{Kind: StepPrepare, Why: "the CA elsewhere", Candidate: o.Remote}
}

// canFollow says why the candidate cannot stand beside the generations that there
// are, or nil.
func (s State) canFollow(c Candidate) error {
	for _, g := range s.Generations {
		switch {
		case c.generation().Issuer().Equal(g.Issuer()):
			return fmt.Errorf("it is %s already", g.name())
		case c.Root.Subject.String() == g.Root.Subject.String() && !c.Root.Equal(g.Root):
			return fmt.Errorf("its root has the subject of the root of generation %d, %q, and is another: verifiers would pick the wrong one", g.Number, g.Root.Subject)
		}
	}
	return nil
}

// ladderFull reports whether the next generation would need more crosses than are
// served.
func (s State) ladderFull(now time.Time) bool {
	return s.oldest(now) != nil
}

// oldest returns the oldest generation that a full ladder reaches, nil if there is
// room for one more cross.
func (s State) oldest(now time.Time) *Generation {
	reached := s.reached(len(s.Generations)-1, now)
	if len(reached) <= maxCrosses {
		return nil
	}
	return &reached[maxCrosses]
}

// refuse answers a request that cannot be met.
func refuse(d *Decision, o Observed) {
	if o.Request.Wrong != nil {
		d.warn(WarnRequest, "%v", o.Request.Wrong)
	}
	if !o.Request.open(d.State.Rotation) || d.State.waiting() {
		return
	}
	why := ""
	switch newest := d.State.newest(); {
	case o.Request.Mode == api.RotateReplaceLost:
		why = "the CA is neither lost nor corrupt"
	case newest.Origin == OriginRemote || o.HasRemote:
		why = "the CA is elsewhere: it is replaced there, and followed here"
	default:
		why = d.State.leftOut(o.Now) + ": at most 3 cross-certificates are served. --force leaves them out"
	}
	d.Step = Step{Kind: StepRefuse, Why: why, Answers: true}
}

// leftOut says who could not verify a generation for which the ladder is too full.
func (s State) leftOut(now time.Time) string {
	oldest := s.oldest(now)
	if oldest == nil {
		return ""
	}
	return fmt.Sprintf("clients that hold only %s, which expires at %s, could not verify a new generation", oldest.name(), clock(oldest.Root.NotAfter))
}

// retire takes out of the bundle what no client needs, and forgets what no chain
// does.
func retire(d *Decision, o Observed) {
	tidied, next := d.State.tidied(o.Now)
	if !next.IsZero() {
		d.lookAt(next)
	}
	if tidied.differs(*d.State) {
		d.Step = Step{Kind: StepRetire}
		return
	}
	for i, g := range d.State.Generations {
		if i < d.State.signingIndex() && g.inUse(o.Now) && d.Waiting == "" {
			d.Waiting = fmt.Sprintf("the last certificate of %s ends by %s", g.name(), clock(g.UsedUntil))
		}
	}
}
