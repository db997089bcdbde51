package signer

import (
	"cmp"
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

// Ownership is which Services share a Secret, and what they request together.
type Ownership struct {
	// Asked is what the Services request together, Wanted the part of it that the
	// certificate can contain at present. Without an Authority nothing is Wanted.
	Asked, Wanted api.Wanted
	// Retained: no Service requests the Secret (validly) any more.
	Retained bool
	// External: another issuer writes the Secret.
	External bool
	// ExistedBefore: the condition of a requester names the Secret.
	ExistedBefore bool
	// Participants are the Services that share the Secret.
	Participants []*corev1.Service
	// Refused are the Services whose request is not valid.
	Refused []api.Member
	// Waiting are the names, by the UID of the participant, that not all clients accept yet.
	Waiting map[types.UID][]string
	// Foreign is why the existing Secret is not ours (invariant 1), or empty. MayBeOurs: only its
	// metadata is known, which names a participant as its owner, now or before.
	Foreign   string
	MayBeOurs bool

	owners []metav1.OwnerReference // that the Secret should have
}

// OwnershipOf returns the Ownership of the Secret. It is pure.
func OwnershipOf(s Situation) Ownership {
	o := shared(s)
	if o.External {
		return o
	}
	o.ExistedBefore = slices.ContainsFunc(s.Requesters, func(svc *corev1.Service) bool { return state.ReadyOf(svc).Has(s.Key.Name) })
	switch {
	case s.Unmanaged != nil:
		o.Foreign, o.MayBeOurs = cmp.Or(writer(s.Unmanaged.Annotations), noLabel), hasOwnerNamed(s.Unmanaged, o.Participants)
	case s.Secret != nil && s.Authority != nil:
		o.Foreign = foreign(s, o)
	}
	if s.Authority != nil {
		var waits bool
		if o.Wanted, waits = Acceptable(o.Asked, s.Limits, s.Authority); waits {
			o.Waiting = waitingNames(o.Participants, s.Limits, s.Authority)
		}
	}
	return o
}

// shared returns the participants and what they request together. If no Service requests the
// Secret validly, its owners keep it: nothing that is in use is removed.
func shared(s Situation) Ownership {
	var o Ownership
	requesters := slices.DeleteFunc(slices.Clone(s.Requesters), func(svc *corev1.Service) bool { return !s.optedIn(svc) })
	wanted, members, ok := api.Merge(requesters, s.Limits)
	for _, m := range members {
		if m.Err != nil {
			o.Refused = append(o.Refused, m)
		} else {
			o.Participants = append(o.Participants, m.Service)
		}
	}
	owns := func(svc *corev1.Service) bool { return s.Secret.OwnedBy(svc.UID) && s.mayKeep(svc, s.Key.Name) }
	if o.External = ok && wanted.External && (s.Secret.isExternal() || !slices.ContainsFunc(o.Participants, owns)); o.External {
		return o
	}
	if ok && !wanted.External {
		stay := refusedOwners(s, o.Refused)
		retained, mistaken := wanted.WithRetained(stay, s.Limits)
		o.Asked = retained
		if len(stay) > 0 { // so there is a Secret
			o.Asked.Formats |= mistaken & s.Secret.formats()
		}
		if keepsRSA4096(s, stay) {
			o.Asked.Params.KeyAlgorithm = s.Secret.Leaf.KeyAlgorithm
		}
		o.owners = ownerReferences(s.Secret, slices.SortedFunc(slices.Values(slices.Concat(o.Participants, stay)), api.OlderFirst))
		return o
	}
	if s.Secret == nil {
		return o
	}
	o.Participants = nil
	for _, svc := range slices.Concat(s.Owners, s.Requesters) {
		if s.Secret.OwnedBy(svc.UID) && s.mayKeep(svc, s.Key.Name) {
			o.Participants = append(o.Participants, svc)
		}
	}
	o.Retained = true
	o.Asked = retainedWanted(s, o.Participants)
	o.owners = s.Secret.OwnerReferences
	return o
}

// refusedOwners returns the owners of the Secret whose request is not valid now. They keep
// the names that they had, whatever is wrong with an annotation.
func refusedOwners(s Situation, refused []api.Member) []*corev1.Service {
	var owners []*corev1.Service
	for _, m := range refused {
		if s.Secret != nil && s.Secret.OwnedBy(m.Service.UID) {
			owners = append(owners, m.Service)
		}
	}
	return owners
}

// retainedWanted returns what to renew a retained Secret with: the same key type, lifetime and
// files, and the names that its Services may have. Names are never taken from the certificate,
// which could be a copy of another Service's. A remote CA chooses lifetimes of its own, which
// would add up, so it is asked for the default.
func retainedWanted(s Situation, participants []*corev1.Service) api.Wanted {
	wanted := s.withoutOptIn(api.Retained(participants, s.Limits), participants)
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

// keepsRSA4096 reports whether the Secret keeps an RSA4096 key that one of the Services
// requests, although new ones are not permitted.
func keepsRSA4096(s Situation, services []*corev1.Service) bool {
	return s.Secret != nil && s.Secret.Leaf.KeyAlgorithm == pki.RSA4096 && !s.Limits.PermitRSA4096 &&
		slices.ContainsFunc(services, func(svc *corev1.Service) bool {
			return svc.Annotations[api.AnnotationKeyAlgorithm] == string(pki.RSA4096)
		})
}

// foreign returns why the Secret is not ours (invariant 1), or "". It is ours if it has two of
// three marks, at least one of the first two: our label, an owner reference to a participant,
// and a leaf that this CA signed (or no data at all). So a Secret of ours with invalid data is
// repaired, and a foreign one with a copied label is left unchanged. So is one that no Service
// requests any more and that another issuer (api.IssuerExternal) has written meanwhile.
func foreign(s Situation, o Ownership) string {
	participants := o.Participants
	owned := slices.ContainsFunc(participants, func(svc *corev1.Service) bool { return s.Secret.OwnedBy(svc.UID) })
	ownedByName := hasOwnerNamed(&s.Secret.ObjectMeta, participants)
	known := s.Secret.Empty && len(s.Secret.Other) == 0 || s.Secret.SignedBy(s.Authority) != nil
	switch {
	case s.Secret.Type != corev1.SecretTypeTLS:
		return fmt.Sprintf("its type is %q, must be %q", s.Secret.Type, corev1.SecretTypeTLS)
	case leftToIssuer(s, o):
		return cmp.Or(writer(s.Secret.Annotations), "another issuer writes it")
	case s.Secret.Labelled && owned, (s.Secret.Labelled || ownedByName) && known:
		return ""
	case s.Secret.Labelled:
		return "it has this signer's label, but none of the Services owns it and this CA did not sign its certificate"
	}
	return cmp.Or(writer(s.Secret.Annotations), noLabel+" and this CA did not sign its certificate")
}

const noLabel = "it does not have this signer's label"

// hasOwnerNamed reports whether an owner has the name of one of the Services. A Service that
// was deleted and recreated has another UID.
func hasOwnerNamed(object *metav1.ObjectMeta, services []*corev1.Service) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(r metav1.OwnerReference) bool {
		return isServiceReference(r) && slices.ContainsFunc(services, func(svc *corev1.Service) bool { return svc.Name == r.Name })
	})
}

// ownerReferences returns the owners that the Secret should have: the participants, and the
// existing owners that are not Services.
func ownerReferences(secret *SecretFacts, participants []*corev1.Service) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	if secret != nil {
		for _, r := range secret.OwnerReferences {
			if !isServiceReference(r) {
				refs = append(refs, r)
			}
		}
	}
	no := false
	for _, svc := range participants {
		refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID, BlockOwnerDeletion: &no})
	}
	return refs
}

// Without the label of its namespace, a Service keeps its names and gets no new ones. Only a
// signature of the CA proves which it had, since other users may write the status of Services:
// the leaf in a Secret, or the proof in the condition of a Service with pod keys.

// optedIn reports whether the request of the Service is honored. OpenShift's annotations are
// honored in every namespace.
func (s Situation) optedIn(svc *corev1.Service) bool {
	return s.OptedIn || api.OpenShiftAnnotation(svc) != ""
}

// mayKeep reports whether the Service may keep a Secret that it does not request
// validly. Without the opt-in, its condition has to name the Secret, and retainedWanted
// leaves it the names that the Secret shows.
func (s Situation) mayKeep(svc *corev1.Service, secret string) bool {
	return s.optedIn(svc) || state.ReadyOf(svc).Has(secret)
}

// shows reports whether the Secret holds a key and a certificate that the CA signed, now or
// before. A user who could write both already has a key for these names.
func (s Situation) shows() bool {
	f := s.Secret
	return f != nil && s.Authority != nil && !f.Empty && f.Defect == "" && f.Leaf.Usages == nil && f.SignedBy(s.Authority) != nil
}

// withoutOptIn restricts the names to those that a Service with the opt-in may have, and those
// that the Secret shows.
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

// labelText returns a clause about the namespace's label, with a verb such as "does not have".
func (s Situation) labelText(verb string) string {
	return fmt.Sprintf("namespace %q %s label %s=%s", s.Key.Namespace, verb, api.LabelInject, api.InjectEnabled)
}
