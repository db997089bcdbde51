package signer

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// isServiceReference reports whether an owner reference is of the kind that the
// signer writes.
func isServiceReference(r metav1.OwnerReference) bool {
	return r.APIVersion == "v1" && r.Kind == "Service"
}

// sameOwners compares what counts in order; the API server fills in the rest.
func sameOwners(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(a, b metav1.OwnerReference) bool {
		return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID
	})
}
