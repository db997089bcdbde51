package signer

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// Action is what is to be done with the Secret.
type Action int

// The actions. All but the first two are one write.
const (
	Nothing Action = iota
	Look           // read the Obstacle live and decide again: it might be ours
	Create         // a new Secret with a new certificate
	Reissue        // a new certificate into the Secret that is there
	Replace        // as Reissue, for a Secret that cannot be changed in place: delete it and create it anew
	Repair         // what the Content says, with the certificate as it is
)

// Decision is what follows from a Situation for the Secret. What follows for the
// Services is in a Settlement, since it depends on whether the write succeeds.
type Decision struct {
	Action  Action
	Reason  Reason // of an action that issues
	Message string // the reason in a sentence, for people
	// Content is what the Secret is to hold, with the pair that it has. With gives
	// that with a pair that was issued.
	Content Content
	// Asked is what the Services ask for together, Wanted what the certificate is
	// to hold of it now.
	Asked, Wanted api.Wanted
	Problem       Problem
	// Undecided: conditions stay as they are, as long as it is not known what to say.
	Undecided bool
	// Retained: nobody asks for the Secret (validly) any more.
	Retained bool
	// Leaf is the fingerprint of the leaf that is served, if all is well.
	Leaf string
	// Refused are the Services that asked and have no part in the Secret.
	Refused []api.Member
	// Members are the Services that have one.
	Members []*corev1.Service
	// Waiting are the names of a Member, by its UID, that not all clients would
	// accept yet.
	Waiting map[types.UID][]string
	// NextAt is when to look again, zero if only a change can bring anything.
	NextAt time.Time

	// Tokens are how many tokens of its namespace the certificate takes that is issued.
	Tokens int

	owners []metav1.OwnerReference // what the Secret's are to be
}

// Problem is why all is not well with a Secret, for the Services that have a part
// in it. Zero: all is well.
type Problem struct {
	Reason  Reason
	Message string
	// Temporary: nothing can be done now. A certificate that is good goes on, and
	// what its Services say of it stays.
	Temporary bool
}

// With returns what the Secret is to hold with the pair that was issued.
func (d Decision) With(s Situation, issued Issued) Content {
	return contentOf(s, d, &issued)
}

// Issues reports whether the decision is to issue a certificate.
func (d Decision) Issues() bool {
	return d.Action == Create || d.Action == Reissue || d.Action == Replace
}

// Decide returns what is to be done about the Secret. It is pure.
func Decide(s Situation) Decision {
	if s.Terminating {
		return Decision{Undecided: true} // what comes next is an event of its own
	}
	terminates := s.Secret != nil && s.Secret.DeletionTimestamp != nil
	if terminates && s.Now.Before(s.Secret.DeletionTimestamp.Add(terminatingGrace)) {
		return Decision{Undecided: true, NextAt: s.Secret.DeletionTimestamp.Add(terminatingGrace)}
	}
	d := claim(s)
	switch {
	case Pending(s.AuthorityErr):
		return Decision{Undecided: true, NextAt: s.Now.Add(CARetry)} // the CA is about to be known
	case len(d.Members) == 0:
		return d
	case terminates:
		d.Problem = terminating(s.Secret)
		return d
	case s.AuthorityErr != nil:
		d.Problem, d.NextAt = blocked(s.AuthorityErr), s.Now.Add(CARetry)
		return d
	}
	var waits bool
	if d.Wanted, waits = Acceptable(d.Asked, s.Limits, s.Authority); waits {
		d.Waiting = waitingNames(d.Members, s.Limits, s.Authority)
	}
	switch {
	case s.Obstacle != nil && hasOwnerNamed(s.Obstacle, d.Members):
		return Decision{Undecided: true, Action: Look}
	case s.Obstacle != nil:
		d.Problem = conflict(s, noLabel)
		return d
	case s.Secret == nil && nameless(d.Wanted):
		return d.wait(s)
	case s.Secret == nil:
		return d.issue(s, Create, causeOfNone(s), "the Secret does not exist")
	}
	if d.Problem = mayNotWrite(s, d); d.Problem.Reason != "" {
		return d
	}
	return judge(s, d)
}

// mayNotWrite is the problem of a Secret that exists and must stay as it is, or none.
func mayNotWrite(s Situation, d Decision) Problem {
	if why := foreign(s, d.Members); why != "" {
		return conflict(s, why)
	}
	if d.Retained && nameless(d.Asked) {
		return notOptedIn(s)
	}
	return Problem{}
}

// judge decides about a Secret that exists and is ours.
func judge(s Situation, d Decision) Decision {
	d.Content = contentOf(s, d, nil)
	found, message, next := evaluate(newCandidate(s, d, s.Secret))
	if found.reason == reasonNames && s.sameRequest(d.Asked, d.Members) {
		found.free = true // the names follow from the CA, and no Service has asked for others
		if s.Now.Before(s.spread()) {
			d = d.wait(s)
			d.Problem.Temporary, d.NextAt = true, s.spread()
			return d
		}
	}
	switch {
	case message != "" && nameless(d.Wanted):
		return d.wait(s)
	case message != "" && s.Secret.replacedWhole():
		return d.issue(s, Replace, found, message)
	case message != "":
		return d.issue(s, Reissue, found, message)
	}
	d.Leaf, d.NextAt = s.Secret.Leaf.Fingerprint, next
	switch {
	case s.Secret.replacedWhole() && len(d.Content.changedKeys(s.Secret)) > 0:
		return d.issue(s, Replace, foreignData, whyReplaced(s.Secret, d.Content.changedKeys(s.Secret)))
	case d.Content.differs(s.Secret):
		d.Action = Repair
	}
	return d
}

// whyReplaced says why data under other keys is not removed in place.
func whyReplaced(f *SecretFacts, keys []string) string {
	if len(f.Other) > maxOther {
		return fmt.Sprintf("the Secret has data under more than %d other keys", maxOther)
	}
	return "the Secret is immutable and data under other keys has to change: " + quoted(keys)
}

// issue is the decision to issue a certificate, once the limits let it.
func (d Decision) issue(s Situation, action Action, why cause, message string) Decision {
	tokens := why.tokens(d.Wanted.Params.KeyAlgorithm)
	if at, problem := why.limited(s, tokens); at.After(s.Now) {
		if problem.Temporary {
			d.Leaf = s.Secret.Leaf.Fingerprint
		}
		d.Problem, d.NextAt = problem, at
		return d
	}
	d.Action, d.Reason, d.Message, d.Tokens = action, why.reason, message, tokens
	return d
}

// wait leaves everything as it is: no client would accept a certificate with any
// of the names.
func (d Decision) wait(s Situation) Decision {
	d.Problem.Reason = reasonWaiting
	if s.Secret.usable(s.Now) {
		d.Leaf = s.Secret.Leaf.Fingerprint
	}
	return d
}

// conflict is the problem of a Secret that is not ours.
func conflict(s Situation, why string) Problem {
	return Problem{
		Reason:  reasonConflict,
		Message: fmt.Sprintf("Secret %q exists and is not managed by this signer: %s. It is left unchanged: delete it, or ask for another name", s.Key.Name, why),
	}
}

// blocked is the problem under a CA that cannot sign.
func blocked(err error) Problem {
	return Problem{Reason: ReasonOf(err, reasonUnavailable), Message: err.Error(), Temporary: true}
}

// Pending reports whether the CA has not been looked at yet.
func Pending(err error) bool { return err != nil && ReasonOf(err, "") == reasonPending }

// causeOfNone tells a Secret that never was from one that somebody deleted: it
// is the one that the condition of a Service names.
func causeOfNone(s Situation) cause {
	for _, svc := range s.Asking {
		if api.NamesSecret(svc, s.Key.Name) {
			return missing
		}
	}
	return first
}
