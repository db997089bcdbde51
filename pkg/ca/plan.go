package ca

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

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
	return o.Request.open(s.Rotation.String()) && (o.Request.Mode == api.RotateOverlap || o.Request.Mode == api.RotateForce)
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
		if step := o.planImport(d); step.Kind != "" {
			return step
		}
		return Step{Kind: StepPrepare, Why: noRemote}
	case o.Remote == nil:
		d.warn(WarnRemote, "%v", o.RemoteErr)
		return Step{}
	case o.signsElsewhere(newest):
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
// are, or nil. A CA elsewhere may be one that was left before.
func (s State) canFollow(c Candidate) error {
	for _, g := range s.Generations {
		switch {
		case c.Origin != OriginRemote && c.generation().Issuer().Equal(g.Issuer()):
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
