package ca

import (
	"errors"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Decide returns what is to be done about the CA. It is pure.
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

// decideStep decides all but what follows from the rest of the decision.
func decideStep(s Situation) Decision {
	if len(s.Secret) == 0 {
		return decideWithoutCA(s)
	}
	state, err := ParseState(s.Secret)
	switch {
	case errors.Is(err, errNewerVersion):
		var d Decision
		d.stop(api.CANewerVersion, "Secret %s cannot be used: %v. Install that version again, or a newer one. No certificate is issued until then, and nothing is lost; "+
			"to stay with this version for good, restore a backup that it wrote", api.CASecretName, err)
		return d
	case err != nil:
		var d Decision
		replaceLost(&d, s, "the CA was corrupt and is replaced: ")
		d.stop(api.CACorrupt, "Secret %s cannot be used: %v. Restore it from a backup; no certificate is issued until then. "+
			"To replace the CA for good: kubectl servingcert rotate-ca --replace-lost --reason TEXT", api.CASecretName, err)
		return d
	}
	d := Decision{State: &state}
	switch newest := state.Newest().Number; {
	case s.newestSeen() > newest:
		d.warn(api.CARestored, "Secret %s knows %d as the newest generation, and the status has seen %d: was an old backup restored? Certificates of a generation that the Secret does not know are replaced",
			api.CASecretName, newest, s.newestSeen())
	case s.lastSigned() > state.Signing:
		d.warn(api.CARestored, "Secret %s says that generation %d signs, and the status has seen %d sign: was an old backup restored? Certificates of later generations are replaced",
			api.CASecretName, state.Signing, s.lastSigned())
	}
	if s.ExtraErr != nil {
		d.warn(api.CAExtraRootsInvalid, "ConfigMap %s cannot be used, and the roots that it held before stay: %v", api.ExtraRootsName, s.ExtraErr)
	}
	canSign(&d, s)
	succeed(&d, s)
	return d
}

// decideWithoutCA tells a first start from a loss.
func decideWithoutCA(s Situation) Decision {
	var evidence []string
	if s.Status != nil {
		evidence = append(evidence, "ConfigMap "+api.CAStatusName+" exists")
	}
	if s.ManagedExist {
		evidence = append(evidence, "Secrets with issued certificates exist")
	}
	if len(s.Interim) > 0 {
		evidence = append(evidence, "Secret "+api.CAInterimName+" exists")
	}
	if len(evidence) == 0 {
		return decideFirst(s)
	}
	var d Decision
	replaceLost(&d, s, "the CA was lost and is replaced: ")
	d.stop(api.CALost, "Secret %s is missing or empty, and there was a CA: %s. Restore the Secret from a backup. No certificate is issued until then, and no new CA is made: no client would trust it. "+
		"To replace the CA for good: kubectl servingcert rotate-ca --replace-lost --reason TEXT", api.CASecretName, strings.Join(evidence, ", "))
	return d
}

// replaceLost starts anew in place of a CA that is lost or corrupt, if a person
// asks for it: after this loss, not after an earlier one, the annotation of which
// may still be there.
func replaceLost(d *Decision, s Situation, why string) {
	if s.Request.Mode == api.RotateReplaceLost && s.asksAnew() && s.ClockErr == nil {
		d.Step = freshStep(s, why+s.Request.Reason)
	}
}

// decideFirst decides about the first CA: the remote one, the one that is
// imported, or a new one.
func decideFirst(s Situation) Decision {
	var d Decision
	d.stop(api.CAPending, "the first CA is being made")
	switch {
	case s.ClockErr != nil:
		d.Problem.Message = s.ClockErr.Error()
	case s.HasRemote && s.Remote == nil:
		d.stop(api.CAUnreachable, "the remote CA was never reached: %v", s.RemoteErr)
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

// canSign says why the stored CA cannot sign now, if so.
func canSign(d *Decision, s Situation) {
	g := d.State.signing()
	d.Problem = g.outOfTime(s.Now)
	switch {
	case d.Problem.Reason == api.CANotYetValid:
		d.lookAt(g.Issuer().NotBefore)
	case d.Problem.Reason != "":
	case d.State.replacing():
		d.stop(api.CAWaitingForTrust, "%s replaces a CA that was lost; nothing is issued until its root is trusted everywhere beside those of ConfigMap %s", g, api.ExtraRootsName)
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
