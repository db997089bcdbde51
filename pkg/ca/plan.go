package ca

import (
	"errors"
	"fmt"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// noRemote is the reason for leaving a remote CA.
const noRemote = "there is no longer a remote CA (neither --cfssl-url nor --ca-issuer is set)"

// plan returns the step that would create the next generation; zero if none is needed.
func plan(d *Decision, s Situation) Step {
	newest := d.State.Newest()
	if s.HasRemote || newest.Origin == OriginRemote {
		return planRemote(d, s)
	}
	if step := planImport(d, s); step.Kind != "" {
		return step
	}
	if asksForOverlap(d, s) && (s.Request.Mode == api.RotateForce || s.Now.After(newest.Ends()) || !ladder(d.State.Generations).full(s.Now)) {
		return Step{Kind: StepPrepare, Why: "requested: " + s.Request.Reason, Answers: true}
	}
	if newest.Origin == OriginImport {
		warnOfImported(d, s)
		return Step{}
	}
	return planOwn(d, s)
}

// asksForOverlap reports whether a person requested an ordinary succession.
func asksForOverlap(d *Decision, s Situation) bool {
	return s.asks(d.State.Rotation.request()) && (s.Request.Mode == api.RotateOverlap || s.Request.Mode == api.RotateForce)
}

// warnOfImported warns if an imported CA is about to expire or lacks names: it is
// replaced only at a person's request.
func warnOfImported(d *Decision, s Situation) {
	imported := d.State.Newest()
	if due := imported.Ends().Add(-pki.Lifetime(imported.Issuer()) / 3); !s.Now.Before(due) {
		d.warn(api.CAEnding, "the imported CA, %s, expires at %s and is not replaced automatically: import another, or create one here with kubectl servingcert rotate-ca",
			imported, formatTime(imported.Ends()))
	} else {
		d.lookAt(due)
	}
	if missing := imported.misses(s.Constraints); len(missing) > 0 {
		d.warn(api.CAConstraintsChanged, "the flags permit %s, but the imported CA does not: certificates do not get such names", strings.Join(missing, ", "))
	}
}

// planOwn replaces a CA that was made here: in the last third of its lifetime, and
// when it does not permit everything that the flags permit. The new CA permits only
// what the flags do.
func planOwn(d *Decision, s Situation) Step {
	newest, generations := d.State.Newest(), ladder(d.State.Generations)
	due := newest.Root.NotAfter.Add(-pki.Lifetime(newest.Root) / 3)
	if domain := newest.trustDomain(); domain != s.Constraints.TrustDomain {
		d.warn(api.CAConstraintsChanged, "the trust domain stays %q, as an identity must not change its name: set --trust-domain=%s. To start over with another one: delete Secret %s, then %s --replace-lost --reason TEXT",
			domain, domain, s.Objects().Secret, s.Objects().Rotate)
	}
	if missing := newest.misses(s.Constraints); len(missing) > 0 {
		return Step{Kind: StepPrepare, Why: "the flags permit " + strings.Join(missing, ", ")}
	}
	if s.Now.Before(due) {
		d.lookAt(due)
		return Step{}
	}
	why := fmt.Sprintf("less than a third of the lifetime of %s is left", newest)
	// Clients that hold only the oldest root would be left out. The succession waits
	// while a new root can still be distributed before this one expires.
	last := newest.Ends().Add(-2*s.Soak - markSlack)
	if generations.full(s.Now) && s.Now.Before(last) {
		d.warn(api.SuccessionWaits, "a new generation is due (%s) and waits until that root expires, or until %s: %s", why, formatTime(last), generations.leftOut(s.Now))
		d.lookAt(last)
		return Step{}
	}
	return Step{Kind: StepPrepare, Why: why}
}

// planImport imports a CA once.
func planImport(d *Decision, s Situation) Step {
	err := s.ImportErr
	if s.Import != nil {
		if s.Import.fingerprint() == d.State.Import {
			return Step{}
		}
		if err = s.Import.check(s.Parameters, s.Now); err == nil {
			err = canFollow(*d.State, *s.Import)
		}
		if left := ladder(d.State.Generations).leftOut(s.Now); err == nil && left != "" {
			err = errors.New(left + ": it is imported after that root has expired")
		}
	}
	if err != nil {
		d.warn(api.CAImportInvalid, "Secret %s is not imported: %v", api.CAImportName, err)
		return Step{}
	}
	if s.Import == nil {
		return Step{}
	}
	return Step{Kind: StepPrepare, Why: "imported from Secret " + api.CAImportName, Candidate: s.Import}
}

// planRemote follows a change to, of, or away from a remote CA.
func planRemote(d *Decision, s Situation) Step {
	switch {
	case !s.HasRemote:
		if step := planImport(d, s); step.Kind != "" {
			return step
		}
		return Step{Kind: StepPrepare, Why: noRemote}
	case s.Remote == nil:
		d.warn(api.CARemoteInvalid, "%v", s.RemoteErr)
		return Step{}
	case s.remoteIs(d.State.Newest()):
		return Step{}
	}
	err := s.Remote.check(s.Parameters, s.Now)
	if err == nil {
		err = canFollow(*d.State, *s.Remote)
	}
	if err != nil {
		d.warn(api.CARemoteInvalid, "the remote CA cannot be used: %v", err)
		return Step{}
	}
	return Step{Kind: StepPrepare, Why: "the remote CA", Candidate: s.Remote}
}

// canFollow returns an error if the candidate conflicts with a generation of the
// state. A remote CA may be one that was left earlier.
func canFollow(s State, c Candidate) error {
	for _, g := range s.Generations {
		switch {
		case c.Origin != OriginRemote && c.generation().Issuer().Equal(g.Issuer()):
			return fmt.Errorf("it is already %s", g)
		case c.Root.Subject.String() == g.Root.Subject.String() && !c.Root.Equal(g.Root):
			return fmt.Errorf("its root is not the root of generation %d and has the same subject, %q: verifiers would pick the wrong one", g.Number, g.Root.Subject)
		}
	}
	return nil
}
