package signer

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Situation is everything that a decision about one Secret depends on.
type Situation struct {
	Now time.Time
	// Key names the Secret that the decision is about.
	Key types.NamespacedName
	// OptedIn: the namespace has the label. Terminating: it is being deleted.
	OptedIn, Terminating bool
	// Requesters are the Services that name the Secret, Owners those among its
	// owners that do not; none of them is being deleted. Their conditions and
	// annotations are as they were last read or written.
	Requesters, Owners []*corev1.Service
	// Secret is what exists under the name and has our label, or was read
	// because it might be ours; nil if there is none.
	Secret *SecretFacts
	// Unmanaged is the metadata of a Secret of that name that does not have our
	// label. At most one of Secret and Unmanaged is set.
	Unmanaged *metav1.ObjectMeta
	// Kept are the other Secrets that a Service of Requesters or Owners owns, by its UID,
	// sorted.
	Kept map[types.UID][]string

	Instance string // value of our label
	Limits   api.Limits
	// OpenShift: OpenShift's annotations count, and are written.
	OpenShift bool
	Authority *pki.Authority // nil exactly if AuthorityErr is not
	// AuthorityErr is why nothing can be signed.
	AuthorityErr error
	// Widened is the time over which certificates get names that clients accept since a
	// root has gone that did not permit them, and over which those are replaced that
	// service-ca issued. Zero: at once.
	Widened pki.Window
	// Before is the CA bundle before that of the Authority.
	Before Before
	// Rates limit how often certificates are issued. Slot is when they allow the next
	// one of this Secret.
	Rates ratelimit.Rates
	Slot  ratelimit.Slot
}

// Before is a CA bundle that was succeeded, and over which time the files of it are replaced by those
// of its successor. Zero: none is known.
type Before struct {
	Bundle  *pki.Bundle
	Replace pki.Window
}

// kept returns the other Secrets that the Service keeps.
func (s Situation) kept(svc *corev1.Service) []string {
	var kept []string
	for _, name := range s.Kept[svc.UID] {
		if s.mayKeep(svc, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// Action is what is to be done with the Secret.
type Action int

// The actions. All but the first two are one write.
const (
	Nothing  Action = iota
	ReadLive        // read the Unmanaged Secret from the API server and decide again: it may be ours
	Create          // a new Secret with a new certificate
	Reissue         // a new certificate into the Secret that is there
	Replace         // as Reissue, for a Secret that cannot be changed in place: delete it and create it anew
	Repair          // what the Content says, with the certificate as it is
)

// Decision is what to do with the Secret in a Situation. The consequences for the Services are
// in a StatusUpdate, since they depend on whether the write succeeds.
type Decision struct {
	Ownership
	Action  Action
	Reason  Reason // of an action that issues
	Message string // the reason in a sentence, for people
	// Content is what the Secret is to hold, with the pair that it has. With gives
	// that with a pair that was issued.
	Content Content
	Problem Problem
	// Wait: conditions stay unchanged until the state is known.
	Wait bool
	// Leaf is the fingerprint of the leaf that is served, if all is well.
	Leaf string
	// NextAt is when to look again, zero if only a change can bring anything.
	NextAt time.Time
	// Tokens is the number of namespace tokens that this issuance uses.
	Tokens int

	works bool // clients accept the present certificate until this issuance
}

// With returns what the Secret is to hold with the pair that was issued. The error is a format
// that cannot be made of it.
func (d Decision) With(s Situation, issued issue.Issued) (Content, error) {
	c := contentOf(s, d, &issued)
	return c.withFiles(issued.Pair(c.password()))
}

// Issues reports whether the decision is to issue a certificate.
func (d Decision) Issues() bool {
	return d.Action == Create || d.Action == Reissue || d.Action == Replace
}

// Decide returns what to do with the Secret, given its Ownership in the situation. It is pure.
func Decide(s Situation, o Ownership) Decision {
	if s.Terminating {
		return Decision{Wait: true} // what comes next is an event of its own
	}
	terminates := s.Secret != nil && s.Secret.DeletionTimestamp != nil
	if terminates && s.Now.Before(s.Secret.DeletionTimestamp.Add(terminatingGrace)) {
		return Decision{Wait: true, NextAt: s.Secret.DeletionTimestamp.Add(terminatingGrace)}
	}
	d := Decision{Ownership: o}
	switch {
	case Pending(s.AuthorityErr):
		return Decision{Wait: true, NextAt: s.Now.Add(CARetry)} // the CA is about to be known
	case len(d.Participants) == 0:
		return d
	case terminates:
		d.Problem = terminating(s.Secret)
		return d
	case s.AuthorityErr != nil:
		d.Problem, d.NextAt = blocked(s.AuthorityErr), s.Now.Add(CARetry)
		return d
	}
	switch {
	case d.MayBeOurs:
		return Decision{Wait: true, Action: ReadLive}
	case d.Foreign != "":
		d.Problem = conflict(s, d.Foreign)
		return d
	case d.Retained && hasNoNames(d.Asked):
		d.Problem = notOptedIn(s)
		return d
	}
	return decideIssue(s, d)
}

// decideIssue decides whether to issue a certificate into a Secret that is this signer's, or that
// does not exist.
func decideIssue(s Situation, d Decision) Decision {
	if s.Secret != nil {
		d.Content = contentOf(s, d, nil)
	}
	found := evaluate(newCandidate(s, d))
	switch {
	case found.message == "":
		return d.repair(s, found.at)
	case s.Now.Before(found.at):
		held := found.hold(s, d)
		held.NextAt = found.at
		return held
	case hasNoNames(d.Wanted):
		return d.wait(s)
	}
	return d.issue(s, found)
}

// repair returns the decision about a Secret with the right certificate. next is when that may
// have changed.
func (d Decision) repair(s Situation, next time.Time) Decision {
	d.Leaf, d.NextAt = s.Secret.Leaf.Fingerprint, next
	if !d.Content.differs(s.Secret) {
		return d
	}
	if at := d.rootsAt(s); s.Now.Before(at) {
		d.NextAt = limit.EarliestSet(d.NextAt, at)
		return d
	}
	d.Action = Repair
	return d
}

// spread returns when a certificate gets other names for which nobody has asked anew: what
// clients accept has changed. That concerns many Secrets at the same time.
func (s Situation) spread() time.Time { return s.Widened.AtOf(s.Secret.Leaf.Sum) }

// rootsAt returns when the files of the roots are written, if nothing else of the Secret differs
// than that it has them of the roots before: each Secret at its own time, since all that have such
// files differ when the CA bundle changes. Zero: now.
func (d Decision) rootsAt(s Situation) time.Time {
	if s.Before == (Before{}) {
		return time.Time{}
	}
	before := d.Content
	before.Data = maps.Clone(before.Data)
	before.addRoots(*s.Before.Bundle)
	if before.differs(s.Secret) {
		return time.Time{}
	}
	return s.Before.Replace.AtOf(s.Secret.Leaf.Sum)
}

// issue returns the decision to issue a certificate, once the limits allow it.
func (d Decision) issue(s Situation, why finding) Decision {
	switch {
	case s.Secret == nil:
		d.Action = Create
	case s.Secret.replacedWhole():
		d.Action = Replace
	default:
		d.Action = Reissue
	}
	d.Reason, d.Message = why.reason, why.message
	d.Tokens, d.works = why.tokens(d.Wanted.Params.KeyAlgorithm), why.works
	return d.Limited(s)
}

// Limited returns d, or the decision to wait if d issues a certificate before s.Slot.
func (d Decision) Limited(s Situation) Decision {
	slot := s.Slot
	// A deleted Secret whose Service only reports that it waits cannot be told from a first one.
	if d.Tokens == 0 && d.Reason != reasonFirst {
		slot.Namespace = time.Time{}
	}
	at, why := s.Rates.Next(slot)
	if !d.Issues() || !at.After(s.Now) {
		return d
	}
	if d.works {
		d.Leaf = s.Secret.Leaf.Fingerprint
	}
	d.Problem, d.NextAt = Problem{Reason: ReasonRateLimited, Message: why, Temporary: d.works}, at
	d.Action, d.Reason, d.Message, d.Tokens, d.works = Nothing, "", "", 0, false
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
