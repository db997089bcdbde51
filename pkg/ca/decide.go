package ca

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Decide returns what to do about the CA. It is pure.
func Decide(s Situation) Decision {
	d := decideStep(s)
	if d.State != nil && d.Problem.Reason == "" {
		d.Authority = d.State.authority(s)
	}
	d.RaiseFirst = d.Step.Kind == StepRaise && d.State.signing().UsedUntil.Before(s.Now.Add(s.MaxDuration))
	d.Interim = decideInterim(s, d)
	d.Status = statusOf(s, d)
	d.RequeueAfter = requeueAfter(s, d)
	return d
}

// decideStep decides the state, the step, the problem and the warnings.
func decideStep(s Situation) Decision {
	if len(s.Secret) == 0 {
		return decideWithoutCA(s)
	}
	state, err := ParseState(s.Secret)
	switch {
	case errors.Is(err, errNewerVersion):
		var d Decision
		d.stop(api.CANewerVersion, "Secret %s cannot be used: %v. Install that version again, or a newer one. No certificate is issued until then, and nothing is lost; "+
			"to keep this version, restore a backup that it wrote", s.Objects().Secret, err)
		return d
	case err != nil:
		var d Decision
		replaceLost(&d, s, "the CA was corrupt and is replaced: ")
		d.stop(api.CACorrupt, "Secret %s cannot be used: %v. Restore it from a backup; no certificate is issued until then. "+
			"To replace the CA for good: %s --replace-lost --reason TEXT", s.Objects().Secret, err, s.Objects().Rotate)
		return d
	}
	d := Decision{State: &state}
	switch newest := state.Newest().Number; {
	case s.newestSeen() > newest:
		d.warn(api.CARestored, "the newest generation in Secret %s is %d, but the status recorded generation %d: was an old backup restored? Certificates of generations that are not in the Secret are replaced",
			s.Objects().Secret, newest, s.newestSeen())
	case s.lastSigned() > state.Signing:
		d.warn(api.CARestored, "Secret %s signs with generation %d, but the status recorded that generation %d signed: was an old backup restored? Certificates of later generations are replaced",
			s.Objects().Secret, state.Signing, s.lastSigned())
	}
	if s.ExtraErr != nil {
		d.warn(api.CAExtraRootsInvalid, "ConfigMap %s cannot be used, and its previous roots are kept: %v", s.Objects().ExtraRoots, s.ExtraErr)
	}
	canSign(&d, s)
	succeed(&d, s)
	return d
}

// decideWithoutCA distinguishes a first start from a lost CA.
func decideWithoutCA(s Situation) Decision {
	var evidence []string
	if s.Status != nil {
		evidence = append(evidence, "ConfigMap "+s.Objects().Status+" exists")
	}
	if s.ManagedExist {
		evidence = append(evidence, s.issuedExist())
	}
	if len(s.Interim) > 0 {
		evidence = append(evidence, "Secret "+api.CAInterimName+" exists")
	}
	if len(evidence) == 0 {
		return decideFirst(s)
	}
	var d Decision
	replaceLost(&d, s, "the CA was lost and is replaced: ")
	d.stop(api.CALost, "Secret %s is missing or empty, but there was a CA: %s. Restore the Secret from a backup. No certificate is issued until then, and no new CA is created, because no client would trust it. "+
		"To replace the CA for good: %s --replace-lost --reason TEXT", s.Objects().Secret, strings.Join(evidence, ", "), s.Objects().Rotate)
	return d
}

// replaceLost replaces a lost or corrupt CA if a person requests it. A request that
// was answered after an earlier loss may still be there and does not count.
func replaceLost(d *Decision, s Situation, why string) {
	if s.Request.Mode == api.RotateReplaceLost && s.asksAnew() && s.ClockErr == nil {
		if d.Step = freshStep(s, why+s.Request.Reason); d.Step.Kind == "" {
			d.Waiting = waitsForRemote(s)
		}
	}
}

// waitsForRemote returns why a request to start over is not answered yet.
func waitsForRemote(s Situation) string {
	return fmt.Sprintf("rotation %q waits for a remote CA to start over with: %s", s.Request.Reason, s.remoteAnswer())
}

// decideFirst decides the first CA: remote, imported or new.
func decideFirst(s Situation) Decision {
	var d Decision
	d.stop(api.CAPending, "the first CA is being created")
	switch {
	case s.ClockErr != nil:
		d.Problem = ByClock(api.CAMessage{}, s.ClockErr)
	case s.HasRemote && s.Remote == nil:
		d.stop(api.CAUnreachable, "the remote CA has not been reached yet: %v", s.RemoteErr)
	case s.HasRemote:
		if err := s.Remote.check(s.Parameters, s.Now); err != nil {
			d.stop(api.CAUnreachable, "the remote CA cannot be used: %v", err)
			return d
		}
		d.Step = Step{Kind: StepFresh, Candidate: s.Remote, Why: "the first CA, remote"}
	case s.Import != nil && s.Import.check(s.Parameters, s.Now) == nil:
		d.Step = Step{Kind: StepFresh, Candidate: s.Import, Why: "the first CA, imported"}
	default:
		d.Step = Step{Kind: StepFresh, Why: "the first CA"}
	}
	return d
}

// canSign sets the problem if the stored CA cannot sign now.
func canSign(d *Decision, s Situation) {
	g := d.State.signing()
	d.Problem = g.outOfTime(s.Now)
	switch {
	case d.Problem.Reason == api.CANotYetValid:
		d.lookAt(g.Issuer().NotBefore)
	case d.Problem.Reason != "":
	case d.State.replacing():
		d.stop(api.CAWaitingForTrust, "%s replaces a CA that was lost; nothing is issued until its root is trusted everywhere in addition to those of ConfigMap %s", g, api.ExtraRootsName)
	case g.Origin == OriginRemote && !s.HasRemote && d.State.waiting():
		d.stop(api.CAWaitingForTrust, "the CA (%s) is remote, and neither --cfssl-url nor --ca-issuer is set; nothing is issued until the root of %s is trusted everywhere",
			g.Issuer().Subject.CommonName, d.State.Newest())
	case g.Origin == OriginRemote && !s.HasRemote:
		d.stop(api.CAUnreachable, "the CA (%s) is remote, and neither --cfssl-url nor --ca-issuer is set", g.Issuer().Subject.CommonName)
	default:
		d.lookAt(g.Ends().Add(time.Second))
	}
	if window := d.State.reissueWindow(s.Reissue); s.Now.Before(window.Until) {
		d.lookAt(window.Until)
	}
}
