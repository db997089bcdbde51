package ca

import (
	"fmt"

	"github.com/servingcert/servingcert/pkg/api"
)

// The states of the CA and the steps between them:
//
//	Stable ──Prepare──► Wait ──Trusted, Promote──► Reissue, Retire ──Retire──► Stable
//
// Each step is one write to the CA Secret, and the next is decided from what is then
// stored: a crash at any point resumes, and no step is repeated.

// succeed decides the next step, and what is waited for. The first rule that returns
// a step decides.
func succeed(d *Decision, s Situation) {
	if s.ClockErr != nil || d.Problem.Reason == api.CANotYetValid {
		return // no step while the clock is wrong
	}
	rules := []func(*Decision, Situation){distrust, raise, abandon, promote, prepare, refuse, retire}
	for _, rule := range rules {
		if rule(d, s); d.Step.Kind != "" {
			return
		}
	}
}

// asked reports whether there is a request that was not answered.
func asked(d *Decision, s Situation) bool { return s.asks(d.State.Rotation.request()) }

// distrust drops every earlier generation at once, including a prepared one, whose key
// was in the same Secret. A remote CA must first be replaced at its place: a fresh
// start with the same CA would distrust nothing.
func distrust(d *Decision, s Situation) {
	if asked(d, s) && s.Request.Mode == api.RotateDistrust && !s.remoteIs(d.State.signing()) {
		d.Step = freshStep(s, "all earlier generations are distrusted: "+s.Request.Reason)
	}
}

// raise raises the mark of the signing generation before leaves reach it.
func raise(d *Decision, s Situation) {
	g := d.State.signing()
	if raised(*d.State, s.Now, s.MaxDuration).signing().UsedUntil.After(g.UsedUntil) {
		d.Step = Step{Kind: StepRaise}
		return
	}
	if g.UsedUntil.Before(g.Ends()) {
		d.lookAt(raiseAt(g, s.MaxDuration))
	}
}

// abandon removes a waiting generation that is no longer the remote CA. If the remote
// CA is now the signing generation, another of several servers may have answered: the
// new generation keeps waiting, unless its root stays in the bundle without it.
func abandon(d *Decision, s Situation) {
	state, newest := d.State, d.State.Newest()
	switch {
	case !state.waiting() || newest.Origin != OriginRemote:
	case !s.HasRemote:
		d.Step = Step{Kind: StepAbandon, Why: noRemote}
	case s.Remote == nil || s.remoteIs(newest):
	case !s.remoteIs(state.signing()), abandoned(*state).Bundle(s.Now).Hash() == state.Bundle(s.Now).Hash():
		d.Step = Step{Kind: StepAbandon, Why: "the remote CA has changed: " + s.remoteAnswer()}
	}
}

// promote makes the waiting generation sign once its root is trusted.
func promote(d *Decision, s Situation) {
	if !d.State.waiting() {
		return
	}
	signing, newest := d.State.signing(), d.State.Newest()
	deadline := signing.Ends().Add(-s.Soak)
	soaked := newest.TrustedAt.Add(s.Soak)
	if d.State.replacing() {
		deadline = signing.Ends() // no earlier generation is about to expire
	}
	trust := viewTrust(s, d.State.bundle(s.ExtraRoots, s.Now).Hash(), newest)
	switch {
	case !s.Now.Before(deadline):
		d.Step = Step{Kind: StepPromote, Why: "the previous generation expires at " + formatTime(signing.Ends()) + ": there is no time to wait"}
		return
	case trust.missing != "":
		d.Waiting = trust.missing
		if !trust.until.IsZero() {
			d.warn(api.SuccessionHeldUp, "targets in these namespaces refuse the root of %s, or do not keep it: %s. It waits for them until %s; their clients fail after that. ConfigMap %s lists them",
				newest, s.Trust.Namespaces, formatTime(trust.until), api.TrustStatusName)
			d.lookAt(trust.until)
		}
	case newest.TrustedAt.IsZero():
		d.Step = Step{Kind: StepTrusted, Why: fmt.Sprintf("%d of %d targets hold its root", s.Trust.Holding, s.Trust.Targets)}
		return
	case s.Now.Before(soaked):
		d.Waiting = fmt.Sprintf("%s; pods get it by %s", holding(s.Trust), formatTime(soaked))
		d.lookAt(soaked)
	case newest.Origin == OriginRemote && !s.remoteIs(newest):
		d.Waiting = "every target holds the new root, but the remote CA does not sign with its key: " + s.remoteAnswer()
	default:
		d.Step = Step{Kind: StepPromote, Why: "its root is trusted everywhere"}
		if trust.without != "" {
			d.Step.Why = trust.without
		}
		return
	}
	d.lookAt(deadline)
}

// prepare creates the next generation when one is needed.
func prepare(d *Decision, s Situation) {
	step := plan(d, s)
	switch {
	case d.State.waiting():
		if step.Kind != "" && asked(d, s) {
			d.Waiting += fmt.Sprintf(". Then rotation %q follows", s.Request.Reason)
		}
	case step.Kind != "":
		d.Step = step
	}
}

// refuse refuses a request that cannot be fulfilled. A request to distrust waits for a remote CA
// that does not answer, or whose new CA cannot be used yet: a later answer fulfils it.
func refuse(d *Decision, s Situation) {
	if s.RequestErr != nil {
		d.warn(api.RotationInvalid, "%v", s.RequestErr)
	}
	if !asked(d, s) {
		return
	}
	if s.Request.Mode == api.RotateDistrust && s.HasRemote && !s.remoteIs(d.State.signing()) {
		if d.Waiting != "" {
			d.Waiting += "; "
		}
		d.Waiting += waitsForRemote(s)
		return
	}
	if d.State.waiting() {
		return
	}
	why := ""
	switch newest := d.State.Newest(); {
	case s.Request.Mode == api.RotateReplaceLost:
		why = "the CA is neither lost nor corrupt"
	case newest.Origin == OriginRemote || s.HasRemote:
		why = "the CA is remote: replace it there, and the signer follows"
	default:
		why = ladder(d.State.Generations).leftOut(s.Now) + fmt.Sprintf(": at most %d cross-certificates are served. Use --force to leave such clients out", maxCrosses)
	}
	d.Step = Step{Kind: StepRefuse, Why: why}
}

// retire removes roots that no client needs, and cross-certificates that no chain
// needs.
func retire(d *Decision, s Situation) {
	next, at := tidied(*d.State, s.Now)
	d.lookAt(at)
	if differ(next, *d.State) {
		d.Step = Step{Kind: StepRetire}
		return
	}
	for i, g := range d.State.Generations {
		if i < d.State.signingIndex() && g.inUse(s.Now) && d.Waiting == "" {
			d.Waiting = fmt.Sprintf("the last certificate of %s ends by %s", g, formatTime(g.UsedUntil))
		}
	}
}
