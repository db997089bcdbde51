package signer

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnedBy reports whether the Service with this UID is an owner.
func (f *SecretFacts) OwnedBy(uid types.UID) bool {
	return slices.ContainsFunc(f.OwnerReferences, func(r metav1.OwnerReference) bool {
		return isServiceReference(r) && r.UID == uid
	})
}

// ServiceOwners returns the owner references to Services.
func (f *SecretFacts) ServiceOwners() []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(f.OwnerReferences), func(r metav1.OwnerReference) bool { return !isServiceReference(r) })
}

// SameOwners reports whether both Secrets have the same owners.
func (f *SecretFacts) SameOwners(other *SecretFacts) bool {
	return sameOwners(f.OwnerReferences, other.OwnerReferences)
}

// isServiceReference reports whether an owner reference is to a Service.
func isServiceReference(r metav1.OwnerReference) bool {
	return r.APIVersion == "v1" && r.Kind == "Service"
}

// sameOwners compares the references in order, without the fields that the API server defaults.
func sameOwners(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(a, b metav1.OwnerReference) bool {
		return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID
	})
}
