package ca

import (
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Action is what is to be done about the CA.
type Action string

// The actions.
const (
	ActionCreate Action = "Create" // make the first CA
	ActionLoad   Action = "Load"   // sign with the stored CA
	ActionRaise  Action = "Raise"  // sign with it once its mark is raised
	ActionStop   Action = "Stop"   // sign nothing, for Reason
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
)

// ReasonConstraintsChanged is a warning: the flags permit other names than the
// CA, which goes on signing what it permits itself.
const ReasonConstraintsChanged = "CAConstraintsChanged"

// Observed is what a decision is made from.
type Observed struct {
	Secret       map[string][]byte // data of the CA Secret; none if it is absent or empty
	StatusExists bool              // the status ConfigMap is there
	ManagedExist bool              // a Secret with a managed certificate is there; only asked without a CA
	Wanted       pki.Constraints   // what the flags permit
	MaxDuration  time.Duration     // the longest lifetime of a leaf
	Now          time.Time
}

// Decision is what follows from an Observed.
type Decision struct {
	Action Action
	Reason string // for ActionStop
	// Message says for a person what is wrong and what to do. It holds no
	// current time: it is written to the status, where each change is a write.
	Message string
	// State is the stored CA, for all but ActionCreate, and nil where there is
	// none that can be read.
	State *State
	// Raised is what is to be written, for ActionRaise.
	Raised *State
	// Warning is said and stops nothing.
	Warning string
	// Next is when to decide anew though nothing changed; zero: no time changes
	// the decision.
	Next time.Time
}

// Decide returns what is to be done about the CA.
func Decide(o Observed) Decision {
	if len(o.Secret) == 0 {
		return decideWithoutCA(o)
	}
	state, err := ParseState(o.Secret)
	if err != nil {
		return Decision{Action: ActionStop, Reason: ReasonCorrupt, Message: fmt.Sprintf(
			"Secret %s cannot be used: %v. Restore it from a backup; no certificate is issued until then", api.CASecretName, err)}
	}
	d := Decision{State: &state, Warning: constraintsWarning(state, o.Wanted)}
	for _, check := range []func(*Decision, Observed) bool{notYetValid, expired, markDue} {
		if check(&d, o) {
			return d
		}
	}
	d.Action, d.Next = ActionLoad, nextChange(state, o)
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
	if len(evidence) == 0 {
		return Decision{Action: ActionCreate}
	}
	return Decision{Action: ActionStop, Reason: ReasonLost, Message: fmt.Sprintf(
		"Secret %s is missing or empty, and there was a CA: %s. Restore the Secret from a backup; no certificate is issued until then, and no new CA made, which no client would trust. "+
			"To give the old CA up for good, delete ConfigMap %s and every issued Secret",
		api.CASecretName, strings.Join(evidence, ", "), api.CAStatusName)}
}

func notYetValid(d *Decision, o Observed) bool {
	root := d.State.signing().Root
	if !o.Now.Before(root.NotBefore) {
		return false
	}
	d.Action, d.Reason, d.Next = ActionStop, ReasonNotYetValid, root.NotBefore
	d.Message = fmt.Sprintf("the CA (%s) is not valid before %s, and this machine's clock is behind that. Set the clock right; no certificate is issued until then",
		root.Subject.CommonName, clock(root.NotBefore))
	return true
}

func expired(d *Decision, o Observed) bool {
	root := d.State.signing().Root
	if !o.Now.After(root.NotAfter) {
		return false
	}
	d.Action, d.Reason = ActionStop, ReasonExpired
	d.Message = fmt.Sprintf("the CA (%s) expired at %s, and no certificate is issued. If this machine's clock is right, delete Secret %s, ConfigMap %s and every issued Secret to start with a new CA",
		root.Subject.CommonName, clock(root.NotAfter), api.CASecretName, api.CAStatusName)
	return true
}

func markDue(d *Decision, o Observed) bool {
	raised := d.State.raised(o.Now, o.MaxDuration)
	if raised.signing().UsedUntil.Equal(d.State.signing().UsedUntil) {
		return false
	}
	d.Action, d.Raised = ActionRaise, &raised
	return true
}

func constraintsWarning(s State, wanted pki.Constraints) string {
	have := pki.ConstraintsOf(s.signing().Root)
	if have.Equal(wanted) {
		return ""
	}
	return fmt.Sprintf("the flags permit %s, and the CA permits %s: the CA goes on, and a certificate with other names than it permits is not issued",
		describe(wanted), describe(have))
}

func describe(c pki.Constraints) string {
	ips := "no IP address"
	if c.PermitIPs {
		ips = "IP addresses"
	}
	return fmt.Sprintf("%s and %s", strings.Join(c.Normalize().PermittedDNS, ", "), ips)
}

// nextChange returns when time alone changes the decision, or what is served: a
// mark is due, a cross-certificate expires, the CA does.
func nextChange(s State, o Observed) time.Time {
	g := s.signing()
	next := g.Root.NotAfter.Add(time.Second)
	if g.UsedUntil.Before(g.Root.NotAfter) {
		next = earlier(next, g.raiseAt(o.MaxDuration))
	}
	for _, cross := range s.chain(o.Now) {
		next = earlier(next, cross.NotAfter.Add(time.Second))
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// clock is how messages show a time.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
