package signer

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Claim is what Services want of a Secret together, and the part of each of them.
type Claim struct {
	// Asked is what the Services ask for together, Wanted what the certificate is
	// to hold of it now. Without an Authority nothing is Wanted.
	Asked, Wanted api.Wanted
	// Retained: nobody asks for the Secret (validly) any more.
	Retained bool
	// Had: the condition of a Service that asks names the Secret, so that it existed before.
	Had bool
	// Members are the Services that have a part in the Secret.
	Members []*corev1.Service
	// Refused are the Services that asked and have none.
	Refused []api.Member
	// Waiting are the names of a Member, by its UID, that not all clients would
	// accept yet.
	Waiting map[types.UID][]string
	// Foreign is why what exists under the name is not ours (invariant 1), or empty. MayBeOurs: it
	// is known by its metadata only, and by those it is, or was, a Member's.
	Foreign   string
	MayBeOurs bool

	owners []metav1.OwnerReference // what the Secret's are to be
}

// ClaimOf finds out who has a part in the Secret and what they want together. It is pure.
func ClaimOf(s Situation) Claim {
	c := shared(s)
	c.Had = slices.ContainsFunc(s.Asking, func(svc *corev1.Service) bool { return state.ReadyOf(svc).Has(s.Key.Name) })
	switch {
	case s.Obstacle != nil:
		c.Foreign, c.MayBeOurs = noLabel, hasOwnerNamed(s.Obstacle, c.Members)
	case s.Secret != nil && s.Authority != nil:
		c.Foreign = foreign(s, c.Members)
	}
	if s.Authority != nil {
		var waits bool
		if c.Wanted, waits = Acceptable(c.Asked, s.Limits, s.Authority); waits {
			c.Waiting = waitingNames(c.Members, s.Limits, s.Authority)
		}
	}
	return c
}

// shared returns who has a part in the Secret and what they ask for together. If
// nobody asks for it validly, those whose it was go on as before: nothing that
// is in use is taken away.
func shared(s Situation) Claim {
	var c Claim
	asking := slices.DeleteFunc(slices.Clone(s.Asking), func(svc *corev1.Service) bool { return !s.optedIn(svc) })
	wanted, members, ok := api.Merge(asking, s.Limits)
	for _, m := range members {
		if m.Err != nil {
			c.Refused = append(c.Refused, m)
		} else {
			c.Members = append(c.Members, m.Service)
		}
	}
	if ok {
		stay := refusedOwners(s, c.Refused)
		c.Asked = wanted.WithRetained(stay, s.Limits)
		for _, svc := range stay {
			_, mistaken := api.FormatsOf(svc)
			c.Asked.Formats |= mistaken & s.Secret.formats()
		}
		if keepsRSA4096(s, stay) {
			c.Asked.Params.KeyAlgorithm = s.Secret.Leaf.KeyAlgorithm
		}
		c.owners = ownerReferences(s.Secret, slices.SortedFunc(slices.Values(slices.Concat(c.Members, stay)), api.OlderFirst))
		return c
	}
	if s.Secret == nil {
		return c // nothing to go on with
	}
	for _, svc := range slices.Concat(s.Owning, s.Asking) {
		if s.Secret.OwnedBy(svc.UID) && s.mayKeep(svc, s.Key.Name) {
			c.Members = append(c.Members, svc)
		}
	}
	c.Retained = true
	c.Asked = retainedWanted(s, c.Members)
	c.owners = s.Secret.OwnerReferences
	return c
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
// key, lifetime and files as they are, and the names that its Services may have. Never
// the names in the certificate: it could be a copy of another Service's. A remote
// CA gives lifetimes of its own, which would add up; it is asked for the default.
func retainedWanted(s Situation, members []*corev1.Service) api.Wanted {
	wanted := s.withoutOptIn(api.Retained(members, s.Limits), members)
	wanted.Formats |= s.Secret.formats()
	leaf := s.Secret.Leaf
	if leaf.KeyAlgorithm != "" {
		wanted.Params.KeyAlgorithm = leaf.KeyAlgorithm
	}
	local := s.Authority != nil && s.Authority.Key != nil
	if d := leaf.NotAfter.Sub(leaf.NotBefore); d > 0 && local {
		wanted.Params.Duration = min(max(d, s.Limits.MinDuration), s.Limits.MaxDuration)
	}
	return wanted
}

// keepsRSA4096 reports whether the Secret keeps its RSA4096 key for one of the Services
// that have a part in it, although new ones are not permitted.
func keepsRSA4096(s Situation, services []*corev1.Service) bool {
	return s.Secret != nil && s.Secret.Leaf.KeyAlgorithm == pki.RSA4096 && !s.Limits.PermitRSA4096 &&
		slices.ContainsFunc(services, func(svc *corev1.Service) bool {
			return svc.Annotations[api.AnnotationKeyAlgorithm] == string(pki.RSA4096)
		})
}

// foreign says why the Secret is not ours (invariant 1), or nothing. Two marks
// make it ours: our label, an owner reference to one of its Services as it
// lives, and a leaf that this CA signed (or no data at all). Any two, with one
// of the first: so a Secret that we made and somebody filled with garbage is
// healed, and one that somebody copied our label onto is left alone.
func foreign(s Situation, members []*corev1.Service) string {
	owned := slices.ContainsFunc(members, func(svc *corev1.Service) bool { return s.Secret.OwnedBy(svc.UID) })
	ownedByName := hasOwnerNamed(&s.Secret.ObjectMeta, members)
	known := s.Secret.Empty && len(s.Secret.Other) == 0 || s.Secret.SignedBy(s.Authority) != nil
	switch {
	case s.Secret.Type != corev1.SecretTypeTLS:
		return fmt.Sprintf("its type is %q, must be %q", s.Secret.Type, corev1.SecretTypeTLS)
	case s.Secret.Labelled && owned, (s.Secret.Labelled || ownedByName) && known:
		return ""
	case s.Secret.Labelled:
		return "it has this signer's label, but none of the Services owns it and this CA did not sign its certificate"
	}
	return noLabel + " and this CA did not sign its certificate"
}

const noLabel = "it does not have this signer's label"

// hasOwnerNamed reports whether an owner is, or by its name was, one of the
// Services: one that was deleted and made again has another UID.
func hasOwnerNamed(object *metav1.ObjectMeta, services []*corev1.Service) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool {
		return isServiceReference(r) && slices.ContainsFunc(services, func(svc *corev1.Service) bool { return svc.Name == r.Name })
	})
}

// ownerReferences returns the Secret's owners as they should be: the members,
// and whatever owners somebody else added that are not Services.
func ownerReferences(secret *SecretFacts, members []*corev1.Service) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	if secret != nil {
		for _, r := range secret.OwnerReferences {
			if !isServiceReference(r) {
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

// Without the label of its namespace, what a Service has goes on, and it gets nothing new. That it
// had something is shown by what the CA signed, never by words alone: whoever may write the status
// of Services can write the signer's. Of a Secret it is the leaf in it, of keys that pods make a
// proof in the Service's condition.

// optedIn reports whether what the Service asks for counts: by OpenShift's
// annotations it does in every namespace.
func (s Situation) optedIn(svc *corev1.Service) bool {
	return s.OptedIn || api.OpenShiftAnnotation(svc) != ""
}

// mayKeep reports whether the Service may go on with a Secret that it does not ask
// for validly. Without the opt-in, its condition has to name the Secret, and retainedWanted
// leaves it the names that the Secret shows.
func (s Situation) mayKeep(svc *corev1.Service, secret string) bool {
	return s.optedIn(svc) || state.ReadyOf(svc).Has(secret)
}

// shows reports whether the Secret holds a key and its certificate, which the CA signed, now or
// before: whoever wrote them there has what another certificate for their names gives.
func (s Situation) shows() bool {
	f := s.Secret
	return f != nil && s.Authority != nil && !f.Empty && f.Defect == "" && f.Leaf.Usages == nil && f.SignedBy(s.Authority) != nil
}

// withoutOptIn leaves of the names that the Services are given those that a Service with the
// opt-in may have, and those that the Secret shows.
func (s Situation) withoutOptIn(wanted api.Wanted, services []*corev1.Service) api.Wanted {
	if !slices.ContainsFunc(services, func(svc *corev1.Service) bool { return !s.optedIn(svc) }) {
		return wanted
	}
	free := api.Retained(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return !s.optedIn(svc) }), s.Limits)
	var shown LeafFacts
	if s.shows() {
		shown = s.Secret.Leaf
	}
	name := func(n string) bool {
		return !slices.Contains(shown.DNSNames, n) && !slices.Contains(free.DNSNames, n) && !slices.Contains(free.FormerNames, n)
	}
	wanted.DNSNames = slices.DeleteFunc(slices.Clone(wanted.DNSNames), name)
	wanted.FormerNames = slices.DeleteFunc(slices.Clone(wanted.FormerNames), name)
	wanted.IPs = slices.DeleteFunc(slices.Clone(wanted.IPs), func(ip netip.Addr) bool { return !slices.Contains(shown.IPs, ip) && !slices.Contains(free.IPs, ip) })
	return wanted
}

// labelText says of the namespace that it "does not have" the label, or the like.
func (s Situation) labelText(verb string) string {
	return fmt.Sprintf("namespace %q %s label %s=%s", s.Key.Namespace, verb, api.LabelInject, api.InjectEnabled)
}
