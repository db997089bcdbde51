package signer

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
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
	// owners that do not. None of them is being deleted.
	Requesters, Owners []*corev1.Service
	// Secret is the existing Secret if it has our label, or was read because it may be ours;
	// nil if there is none.
	Secret *SecretFacts
	// Unmanaged is the metadata of an existing Secret without our label. At most one of
	// Secret and Unmanaged is set.
	Unmanaged *metav1.ObjectMeta
	// External is what is remembered of the Secret if another issuer writes it, or nil.
	External *External
	// Kept are the other Secrets that a Service of Requesters or Owners owns, by its UID.
	Kept map[types.UID]Kept

	Instance string // value of our label
	Limits   api.Limits
	// OpenShift: OpenShift's annotations are read and written.
	OpenShift bool
	Authority *pki.Authority // nil exactly if AuthorityErr is not
	// AuthorityErr is why nothing can be signed.
	AuthorityErr error
	// Bundle is the CA bundle of the last CA that was available, empty if none was.
	Bundle pki.Bundle
	// Widened is the window in which certificates get names that clients accept since a root
	// that did not permit them was removed, and in which certificates of service-ca are
	// replaced. Zero: at once.
	Widened pki.Window
	// Before is the CA bundle before that of the Authority.
	Before Before
	// Rates limit how often certificates are issued. Slot is when they allow the next
	// one of this Secret.
	Rates ratelimit.Rates
	Slot  ratelimit.Slot
}

// Before is the previous CA bundle, and the window in which files with it are replaced. Zero: none
// is known.
type Before struct {
	Bundle  *pki.Bundle
	Replace pki.Window
}

// Kept are Secrets of a Service.
type Kept struct {
	// Names are the first api.MaxKept of them, and those that the Service's condition names, sorted.
	Names []string
	All   int // how many there are
}

// kept returns the other Secrets that the Service keeps.
func (s Situation) kept(svc *corev1.Service) Kept {
	kept := s.Kept[svc.UID]
	if kept.All == 0 || s.optedIn(svc) {
		return kept
	}
	ready := state.ReadyOf(svc)
	names := slices.DeleteFunc(slices.Clone(kept.Names), func(name string) bool { return !ready.Has(name) })
	return Kept{Names: names, All: len(names)}
}

// Action is what is to be done with the Secret.
type Action int

// The actions. All but the first two are one write.
const (
	Nothing  Action = iota
	ReadLive        // read the Secret from the API server and decide again: it may be ours, or is External
	Create          // a new Secret with a new certificate
	Reissue         // a new certificate into the Secret that is there
	Replace         // as Reissue, for a Secret that cannot be changed in place: delete it and create it again
	Repair          // write the Content with the existing certificate
)

// Decision is what to do with the Secret in a Situation. The consequences for the Services are
// in a StatusUpdate, since they depend on whether the write succeeds.
type Decision struct {
	Ownership
	Action  Action
	Reason  Reason // of an action that issues
	Message string // the reason in a sentence, for people
	// Content is the desired content with the existing pair. With returns it with an issued pair.
	Content Content
	Problem Problem
	// Release is a Secret of another issuer that still has the signer's marks, which are removed.
	Release *SecretFacts
	// Wait: conditions stay unchanged until the state is known.
	Wait bool
	// Leaf is the fingerprint of the leaf that is served, if all is well.
	Leaf string
	// NextAt is when to reconcile again without a change, or zero.
	NextAt time.Time
	// Tokens is the number of namespace tokens that this issuance uses.
	Tokens int

	works bool // clients accept the present certificate until this issuance
}

// With returns the desired content with the issued pair. The error is a format that cannot be
// made of the pair.
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
		return Decision{Wait: true} // the end of the namespace is an event
	}
	terminates := s.Secret != nil && s.Secret.DeletionTimestamp != nil
	if terminates && s.Now.Before(s.Secret.DeletionTimestamp.Add(terminatingGrace)) {
		return Decision{Wait: true, NextAt: s.Secret.DeletionTimestamp.Add(terminatingGrace)}
	}
	d := Decision{Ownership: o}
	switch {
	case Pending(s.AuthorityErr):
		return Decision{Wait: true, NextAt: s.Now.Add(CARetry)} // the CA is about to be known
	case d.External:
		return decideExternal(s, d)
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
	case d.MayBeOurs, s.isReleased():
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

// decideIssue decides whether to issue a certificate into a Secret of this signer, or one that does
// not exist.
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

// spread returns when a certificate is replaced because the names that clients accept have changed.
// Many Secrets are replaced for that reason, so each has its own time in the window.
func (s Situation) spread() time.Time { return s.Widened.AtOf(s.Secret.Leaf.Sum) }

// rootsAt returns when the files of the roots are written, if the Secret differs only in that it has
// the previous roots: each Secret at its own time, since a change of the CA bundle concerns all
// Secrets with such files. Zero: now.
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
	// A deleted Secret whose Service only has a waiting condition looks like a first one.
	if d.Tokens == 0 && d.Reason != reasonFirst {
		slot.Namespace = time.Time{}
	}
	if !d.Issues() || !slot.At().After(s.Now) {
		return d
	}
	at, why := s.Rates.Next(slot)
	if d.works {
		d.Leaf = s.Secret.Leaf.Fingerprint
	}
	d.Problem, d.NextAt = Problem{Reason: ReasonRateLimited, Message: why, Temporary: d.works}, at
	d.Action, d.Reason, d.Message, d.Tokens, d.works = Nothing, "", "", 0, false
	return d
}

// wait returns the decision to change nothing, because not all clients would accept a certificate
// with any of the names.
func (d Decision) wait(s Situation) Decision {
	d.Problem.Reason = reasonWaiting
	if s.Secret.usable(s.Now) {
		d.Leaf = s.Secret.Leaf.Fingerprint
	}
	return d
}
