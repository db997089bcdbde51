package signer

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// WaitForCA is how long a Secret waits for a CA that cannot sign before it is
// looked at again without a change: a clock that was set right notifies nobody.
const WaitForCA = 30 * time.Second

// Action is what is to be done with the Secret.
type Action int

// The actions. All but the first two are one write.
const (
	Nothing Action = iota
	Look           // read the Obstacle live and decide again: it might be ours
	Create         // a new Secret with a new certificate
	Reissue        // a new certificate into the Secret that is there
	Replace        // as Reissue, for a Secret that is immutable: delete it and create it anew
	Repair         // label, owners or extra keys, with the certificate as it is
)

// Decision is what follows from a Situation.
type Decision struct {
	Action  Action
	Reason  Reason // of an action that issues
	Message string // the reason in a sentence, for people
	// Asked is what the Services ask for together, Wanted what the certificate is
	// to hold of it now.
	Asked, Wanted api.Wanted
	Owners        []metav1.OwnerReference // what the Secret's are to be
	Verdict       Verdict
	// Refused are the Services that asked and have no part in the Secret.
	Refused []api.Member
	// Members are the Services that have one.
	Members []*corev1.Service
	// Waiting are the names of a Member, by its UID, that not all clients would
	// accept yet.
	Waiting map[types.UID][]string
	// NextAt is when to look again, zero if only a change can bring anything.
	NextAt time.Time
}

// Decide returns what is to be done about the Secret. It is pure.
func Decide(s Situation) Decision {
	if s.Terminating || s.Secret != nil && s.Secret.DeletionTimestamp != nil {
		return Decision{} // what comes next is an event of its own
	}
	d := claim(s)
	switch {
	case pending(s.AuthorityErr):
		return Decision{NextAt: s.Now.Add(WaitForCA)} // about to be known: no word of it yet
	case len(d.Members) == 0:
		return d
	case s.AuthorityErr != nil:
		d.Verdict = blocked(s.AuthorityErr)
		return d
	}
	d = d.withNames(s)
	switch {
	case s.Obstacle != nil && hasOwnerNamed(s.Obstacle, d.Members):
		return Decision{Action: Look}
	case s.Obstacle != nil:
		d.Verdict = conflict(s, "it does not carry this signer's label")
		return d
	case s.Secret == nil && nameless(d.Wanted):
		return d.wait(s)
	case s.Secret == nil:
		return d.issue(Create, missingReason(s), "the Secret does not exist")
	}
	if why := foreign(s, d.Members); why != "" {
		d.Verdict = conflict(s, why)
		return d
	}
	return judge(s, d)
}

// claim finds out who has a part in the Secret and what they want together. If
// nobody asks for it validly, those whose it was go on as before: nothing that
// is in use is taken away.
func claim(s Situation) Decision {
	var d Decision
	asking := slices.DeleteFunc(slices.Clone(s.Asking), func(svc *corev1.Service) bool { return !s.optedIn(svc) })
	wanted, members, ok := api.Merge(asking, s.Limits)
	for _, m := range members {
		if m.Err != nil {
			d.Refused = append(d.Refused, m)
		} else {
			d.Members = append(d.Members, m.Service)
		}
	}
	if ok {
		stay := refusedOwners(s, d.Refused)
		d.Asked = wanted.With(api.Retained(stay, s.Limits))
		d.Owners = ownerReferences(s.Secret, slices.SortedFunc(slices.Values(slices.Concat(d.Members, stay)), api.OlderFirst))
		return d
	}
	if s.Secret == nil {
		return d // nothing to go on with
	}
	for _, svc := range slices.Concat(s.Owning, s.Asking) {
		if s.Secret.OwnedBy(svc.UID) {
			d.Members = append(d.Members, svc)
		}
	}
	d.Verdict.Retained = true
	d.Asked = retainedWanted(s, d.Members)
	d.Owners = s.Secret.OwnerReferences
	return d
}

// refusedOwners are the Services that have a part in the Secret and ask for what
// is not allowed now. A mistake in an annotation does not cost them what they had.
func refusedOwners(s Situation, refused []api.Member) []*corev1.Service {
	var owners []*corev1.Service
	for _, m := range refused {
		if s.Secret != nil && s.Secret.OwnedBy(m.Service.UID) {
			owners = append(owners, m.Service)
		}
	}
	return owners
}

// retainedWanted is what a Secret that nobody asks for validly is renewed with:
// key and lifetime as they are, and the names that its Services may have. Never
// the names in the certificate: it could be a copy of another Service's. A CA
// elsewhere gives lifetimes of its own, which would add up; it is asked for the
// default.
func retainedWanted(s Situation, members []*corev1.Service) api.Wanted {
	wanted := api.Retained(members, s.Limits)
	leaf := s.Secret.Leaf
	if leaf.KeyAlgorithm != "" {
		wanted.Params.KeyAlgorithm = leaf.KeyAlgorithm
	}
	here := s.Authority != nil && s.Authority.Key != nil
	if d := leaf.NotAfter.Sub(leaf.NotBefore); d > 0 && here {
		wanted.Params.Duration = min(max(d, s.Limits.MinDuration), s.Limits.MaxDuration)
	}
	return wanted
}

// judge decides about a Secret that exists and is ours.
func judge(s Situation, d Decision) Decision {
	c := candidate{s.Now, s.Secret, d.Wanted, s.Authority, s.Secret.verify(s.Authority)}
	checks := [][]check{brokenChecks(), changedChecks()}
	if d.Verdict.Retained {
		checks = checks[:1]
	}
	reason, message := firstReason(c, checks...)
	switch {
	case reason != "" && nameless(d.Wanted):
		return d.wait(s)
	case reason != "" && s.Secret.Immutable:
		return d.issue(Replace, reason, message)
	case reason != "":
		return d.issue(Reissue, reason, message)
	}
	if !s.Secret.Labelled || len(s.Secret.Extra) > 0 || !slices.EqualFunc(s.Secret.OwnerReferences, d.Owners, SameOwner) || hasOtherWords(s, d) {
		d.Action = Repair
		if s.Secret.Immutable && len(s.Secret.Extra) > 0 {
			d = d.issue(Replace, ReasonGarbage, fmt.Sprintf("the Secret is immutable and has more keys than it should: %q", s.Secret.Extra))
		}
	}
	d.Verdict.Leaf = s.Secret.Leaf.Fingerprint
	d.NextAt = NextChange(s.Now, s.Secret, d.Wanted, s.Authority)
	return d
}

// NextChange returns when a certificate that is good now is to be replaced, zero
// if no time is known.
func NextChange(now time.Time, secret *SecretFacts, wanted api.Wanted, ca *pki.Authority) time.Time {
	times := []time.Time{secret.Leaf.RenewAt, wanted.RenewAfter}
	by := secret.verify(ca)
	if by.succeeded() {
		times = append(times, ca.Reissue.At(secret.Leaf.Raw))
	}
	if by.tail {
		times = append(times, by.issuer.Shorten.At(secret.Leaf.Raw))
	}
	var next time.Time
	for _, at := range times {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (d Decision) issue(action Action, reason Reason, message string) Decision {
	d.Action, d.Reason, d.Message = action, reason, message
	return d
}

// foreign says why the Secret is not ours (invariant 1), or nothing. Two marks
// make it ours: our label, an owner reference to one of its Services as it
// lives, and a leaf that this CA signed (or no data at all). Any two, with one
// of the first: so a Secret that we made and somebody filled with rubbish is
// healed, and one that somebody copied our label onto is left alone.
func foreign(s Situation, members []*corev1.Service) string {
	owned := slices.ContainsFunc(members, func(svc *corev1.Service) bool { return s.Secret.OwnedBy(svc.UID) })
	ownedByName := hasOwnerNamed(&s.Secret.ObjectMeta, members)
	known := s.Secret.Empty && len(s.Secret.Extra) == 0 || s.Secret.SignedBy(s.Authority) != nil
	switch {
	case s.Secret.Type != corev1.SecretTypeTLS:
		return fmt.Sprintf("it is of type %q, must be %q", s.Secret.Type, corev1.SecretTypeTLS)
	case s.Secret.Labelled && owned, (s.Secret.Labelled || ownedByName) && known:
		return ""
	case s.Secret.Labelled:
		return "it carries this signer's label, but belongs to none of the Services and holds no certificate of this CA"
	}
	return "it does not carry this signer's label and holds no certificate of this CA"
}

// hasOwnerNamed reports whether an owner is, or by its name was, one of the
// Services: one that was deleted and made again has another UID.
func hasOwnerNamed(object *metav1.ObjectMeta, services []*corev1.Service) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool {
		return IsServiceReference(r) && slices.ContainsFunc(services, func(svc *corev1.Service) bool { return svc.Name == r.Name })
	})
}

// ownerReferences returns the Secret's owners as they should be: the members,
// and whatever owners somebody else added that are no Services.
func ownerReferences(secret *SecretFacts, members []*corev1.Service) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	if secret != nil {
		for _, r := range secret.OwnerReferences {
			if !IsServiceReference(r) {
				refs = append(refs, r)
			}
		}
	}
	no := false
	for _, svc := range members {
		refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID, BlockOwnerDeletion: &no})
	}
	return refs
}

// SameOwner compares what counts; the API server fills in the rest.
func SameOwner(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID
}

// missingReason tells a Secret that never was from one that somebody deleted: it
// is the one that the condition of a Service tells of.
func missingReason(s Situation) Reason {
	for _, svc := range s.Asking {
		if issued, _ := api.ReadyOf(svc); issued.Secret == s.Key.Name {
			return ReasonMissing
		}
	}
	return ReasonFirst
}

// withNames finds out what of the names asked for the certificate is to hold now.
func (d Decision) withNames(s Situation) Decision {
	var waits bool
	if d.Wanted, waits = acceptable(d.Asked, s.Authority); waits {
		d.Waiting = waitingNames(d.Members, s.Limits, s.Authority)
	}
	return d
}

// wait leaves everything as it is: no client would accept a certificate with any
// of the names.
func (d Decision) wait(s Situation) Decision {
	d.Verdict.Reason = ReasonWaiting
	if s.Secret.Usable(s.Now) {
		d.Verdict.Leaf = s.Secret.Leaf.Fingerprint
	}
	return d
}
