package ca

import (
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
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
	rules := []func(*Decision, Observed){distrust, raise, abandon, promote, prepare, refuse, retire}
	for _, rule := range rules {
		if rule(d, o); d.Step.Kind != "" {
			return
		}
	}
}

// distrust leaves every earlier generation at once, a prepared one too: it lay in
// the same Secret. A key that is elsewhere must be replaced there first: to start
// anew with the same would distrust nothing.
func distrust(d *Decision, o Observed) {
	if o.Request.open(d.State.Rotation.String()) && o.Request.Mode == api.RotateDistrust && !o.signsElsewhere(d.State.signing()) {
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

// abandon forgets a generation that waits and is no more the CA elsewhere. If the
// one that signs is, it may be that another of several servers has answered: what
// waits goes on waiting, unless its root stays in the bundle without it.
func abandon(d *Decision, o Observed) {
	s, newest := d.State, d.State.newest()
	switch {
	case !s.waiting() || newest.Origin != OriginRemote:
	case !o.HasRemote:
		d.Step = Step{Kind: StepAbandon, Why: noRemote}
	case o.Remote == nil || o.signsElsewhere(newest):
	case !o.signsElsewhere(s.signing()), s.abandoned().Bundle(o.Now).Hash() == s.Bundle(o.Now).Hash():
		d.Step = Step{Kind: StepAbandon, Why: "elsewhere, " + o.whoSignsElsewhere()}
	}
}

// noRemote is why a CA elsewhere is left.
const noRemote = "the CA is not elsewhere any more (--cfssl-url)"

// signsElsewhere reports whether the CA elsewhere answers that it is the
// generation.
func (o Observed) signsElsewhere(g Generation) bool {
	return o.Remote != nil && o.Remote.generation().Issuer().Equal(g.Issuer())
}

// whoSignsElsewhere says which CA does, or why that is not known.
func (o Observed) whoSignsElsewhere() string {
	if o.Remote == nil {
		return fmt.Sprint(o.RemoteErr)
	}
	return o.Remote.generation().Issuer().Subject.CommonName + " signs"
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
		d.Waiting = fmt.Sprintf("%d of %d targets hold the new root; pods get it until %s", o.Trust.Holding, o.Trust.Targets, clock(soaked))
		d.lookAt(soaked)
	case newest.Origin == OriginRemote && !o.signsElsewhere(newest):
		d.Waiting = "every target holds the new root, and it does not sign elsewhere: " + o.whoSignsElsewhere()
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
		if plan.Kind != "" && o.Request.open(d.State.Rotation.String()) {
			d.Waiting += fmt.Sprintf(". Then rotation %q follows", o.Request.Reason)
		}
	case plan.Kind != "":
		d.Step = plan
	}
}

// refuse answers a request that cannot be met.
func refuse(d *Decision, o Observed) {
	if o.Request.Wrong != nil {
		d.warn(WarnRequest, "%v", o.Request.Wrong)
	}
	if !o.Request.open(d.State.Rotation.String()) || d.State.waiting() {
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
	d.Step = Step{Kind: StepRefuse, Why: why}
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
