package ca

import (
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Why there is no CA to sign with.
const (
	// ReasonPending: this process does not lead, or has not read the CA yet.
	ReasonPending = "CAPending"
	// ReasonLost: the Secret is missing although something shows that there was
	// a CA. A new one would break every client that trusts the old.
	ReasonLost = "CALost"
	// ReasonCorrupt: the Secret is there and is no CA.
	ReasonCorrupt = "CACorrupt"
	// ReasonNotYetValid: the clock is behind the CA's NotBefore.
	ReasonNotYetValid = "CANotYetValid"
	// ReasonExpired: the clock is past the CA's NotAfter.
	ReasonExpired = "CAExpired"
	// ReasonUnreachable: the CA is elsewhere and was never reached.
	ReasonUnreachable = "CAUnreachable"
	// ReasonWaitingForTrust: the CA is not elsewhere any more, and the next cannot
	// be trusted by all clients yet.
	ReasonWaitingForTrust = "WaitingForTrust"
)

// Warnings: what stops no signing.
const (
	// WarnConstraints: the flags permit other names than the CA.
	WarnConstraints = "CAConstraintsChanged"
	// WarnEnding: a CA that was brought ends soon, and is not replaced unasked.
	WarnEnding = "CAEnding"
	// WarnImport: what is to be imported is no CA to be used.
	WarnImport = "CAImportInvalid"
	// WarnRemote: the CA elsewhere does not answer, or with something else.
	WarnRemote = "CARemoteInvalid"
	// WarnRequest: the annotations ask for something that does not exist.
	WarnRequest = "RotationInvalid"
	// WarnLadder: a succession is due and would leave out clients that hold the
	// oldest root only.
	WarnLadder = "SuccessionWaits"
	// WarnRestored: the Secret is older than the status that was made from it.
	WarnRestored = "CARestored"
)

// Observed is what a decision is made from.
type Observed struct {
	Secret       map[string][]byte // data of the CA Secret; none if it is absent or empty
	StatusExists bool              // the status ConfigMap is there
	// StatusGeneration is the highest number of a generation that the status has
	// seen, and StatusSigns the one that it says signs; 0: it says none.
	StatusGeneration, StatusSigns int
	// StatusAnswered is the request that the status says was answered last, in the
	// form of api.CARotation: what is known of it when the CA is lost.
	StatusAnswered string
	ManagedExist   bool // a Secret with a managed certificate is there; only asked without a CA
	Request        Request
	Trust          Trust
	// Import is the CA in Secret api.CAImportName, nil if there is none or if
	// ImportErr says what is wrong with it.
	Import    *Candidate
	ImportErr error
	// Remote is the CA elsewhere as it is now. If HasRemote, it or RemoteErr is set.
	HasRemote bool
	Remote    *Candidate
	RemoteErr error
	// ClockErr is why the clock is not to be relied on: no step is taken then.
	ClockErr error

	Wanted      pki.Constraints // what the flags permit
	Domain      string          // the cluster domain
	MaxDuration time.Duration   // the longest lifetime of a leaf
	CADuration  time.Duration   // the lifetime of a generation made here
	Soak        time.Duration   // how long a new root is known everywhere before it signs
	Reissue     time.Duration   // how long the replacement of older leaves takes
	Now         time.Time
}

// Decision is what follows from an Observed.
type Decision struct {
	// State is the stored CA, nil where there is none that can be read.
	State *State
	// Reason and Message say why nothing can be signed; "" if it can. The message
	// is for a person: what is wrong and what to do. It holds no current time: it
	// is written to the status, where each change is a write.
	Reason, Message string
	// Step is what is to be written, if anything.
	Step Step
	// Warnings are said and stop nothing.
	Warnings []Warning
	// Waiting is what the phase waits for, for people.
	Waiting string
	// Next is when to decide anew though nothing changed; zero: no time changes
	// the decision.
	Next time.Time
}

// Warning is a reason, one of the Warn constants, and a message.
type Warning struct{ Reason, Message string }

func (d *Decision) warn(reason, format string, args ...any) {
	d.Warnings = append(d.Warnings, Warning{reason, fmt.Sprintf(format, args...)})
}

func (d *Decision) stop(reason, format string, args ...any) {
	d.Reason, d.Message = reason, fmt.Sprintf(format, args...)
}

// lookAt has the decision made anew at t, if that is the first such time.
func (d *Decision) lookAt(t time.Time) {
	if d.Next.IsZero() || t.Before(d.Next) {
		d.Next = t
	}
}

// Decide returns what is to be done about the CA. It is pure.
func Decide(o Observed) Decision {
	if len(o.Secret) == 0 {
		return decideWithoutCA(o)
	}
	state, err := ParseState(o.Secret)
	if err != nil {
		d := Decision{}
		o.giveUp(&d, "the CA was corrupt and is given up: ")
		d.stop(ReasonCorrupt, "Secret %s cannot be used: %v. Restore it from a backup; no certificate is issued until then. "+
			"To give it up for good: kubectl servingcert rotate-ca --replace-lost --reason TEXT", api.CASecretName, err)
		return d
	}
	d := Decision{State: &state}
	switch newest := state.newest().Number; {
	case o.StatusGeneration > newest:
		d.warn(WarnRestored, "Secret %s knows %d as the newest generation, and the status has seen %d: an old backup was restored? Certificates of a generation that it does not know are replaced",
			api.CASecretName, newest, o.StatusGeneration)
	case o.StatusSigns > state.Signing:
		d.warn(WarnRestored, "Secret %s says that generation %d signs, and the status has seen %d sign: an old backup was restored? Certificates of the generations after it are replaced",
			api.CASecretName, state.Signing, o.StatusSigns)
	}
	canSign(&d, o)
	succeed(&d, o)
	return d
}

// decideWithoutCA tells a first start from a loss.
func decideWithoutCA(o Observed) Decision {
	var evidence []string
	if o.StatusExists {
		evidence = append(evidence, "ConfigMap "+api.CAStatusName+" exists")
	}
	if o.ManagedExist {
		evidence = append(evidence, "Secrets with issued certificates exist")
	}
	var d Decision
	if len(evidence) == 0 {
		return decideFirst(o)
	}
	o.giveUp(&d, "the CA was lost and is given up: ")
	d.stop(ReasonLost, "Secret %s is missing or empty, and there was a CA: %s. Restore the Secret from a backup; no certificate is issued until then, and no new CA made, which no client would trust. "+
		"To give the old CA up for good: kubectl servingcert rotate-ca --replace-lost --reason TEXT", api.CASecretName, strings.Join(evidence, ", "))
	return d
}

// giveUp starts anew in place of a CA that is lost or corrupt, if a person says so:
// of this loss, and not of one before, whose word still stands in the annotation.
func (o Observed) giveUp(d *Decision, why string) {
	if o.Request.Mode == api.RotateReplaceLost && o.Request.open(o.StatusAnswered) && o.ClockErr == nil {
		d.Step = o.freshStep(why + o.Request.Reason)
	}
}

// decideFirst decides about the first CA: the one elsewhere, the one that is
// brought, or a new one.
func decideFirst(o Observed) Decision {
	var d Decision
	d.stop(ReasonPending, "the first CA is being made")
	switch {
	case o.ClockErr != nil:
		d.Message = o.ClockErr.Error()
	case o.HasRemote && o.Remote == nil:
		d.stop(ReasonUnreachable, "the CA elsewhere was never reached: %v", o.RemoteErr)
	case o.HasRemote:
		if err := o.Remote.check(o); err != nil {
			d.stop(ReasonUnreachable, "the CA elsewhere cannot be used: %v", err)
			return d
		}
		d.Step = Step{Kind: StepFresh, Candidate: o.Remote, Why: "the first CA, elsewhere"}
	case o.Import != nil && o.Import.check(o) == nil:
		d.Step = Step{Kind: StepFresh, Candidate: o.Import, Why: "the first CA, imported"}
	default:
		d.Step = Step{Kind: StepFresh, Why: "the first CA"}
	}
	return d
}

// outOfTime says why the generation cannot sign at now, or returns "".
func (g Generation) outOfTime(now time.Time) (reason, message string) {
	switch issuer := g.Issuer(); {
	case now.Before(issuer.NotBefore):
		return ReasonNotYetValid, fmt.Sprintf("the CA (%s) is not valid before %s, and this machine's clock is behind that. Set the clock right; no certificate is issued until then",
			issuer.Subject.CommonName, clock(issuer.NotBefore))
	case now.After(g.ends()):
		return ReasonExpired, fmt.Sprintf("the CA (%s) expired at %s, and no certificate is issued. If this machine's clock is right, it is replaced as soon as that is possible",
			issuer.Subject.CommonName, clock(g.ends()))
	}
	return "", ""
}

// canSign says why the stored CA cannot sign now, if so.
func canSign(d *Decision, o Observed) {
	g := d.State.signing()
	d.Reason, d.Message = g.outOfTime(o.Now)
	switch {
	case d.Reason == ReasonNotYetValid:
		d.lookAt(g.Issuer().NotBefore)
	case d.Reason != "":
	case g.Origin == OriginRemote && !o.HasRemote && d.State.waiting():
		d.stop(ReasonWaitingForTrust, "the CA (%s) is elsewhere, and no --cfssl-url says where; nothing is issued until the root of %s is trusted everywhere",
			g.Issuer().Subject.CommonName, d.State.newest().name())
	case g.Origin == OriginRemote && !o.HasRemote:
		d.stop(ReasonUnreachable, "the CA (%s) is elsewhere, and no --cfssl-url says where", g.Issuer().Subject.CommonName)
	default:
		d.lookAt(g.ends().Add(time.Second))
	}
	if window := d.State.reissueWindow(o.Reissue); o.Now.Before(window.Until) {
		d.lookAt(window.Until)
	}
}
