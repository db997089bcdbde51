package facts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// KeepIdentity makes an informer of metadata keep only the identity of each
// object. Annotations in particular must go: kubectl's last-applied-configuration
// holds the data of a Secret.
func KeepIdentity(object any) (any, error) {
	if o, ok := object.(*metav1.PartialObjectMetadata); ok {
		return identityOf(o), nil
	}
	return object, nil // a tombstone
}

// maxOwners is how many Services are remembered that own an object by their names. One that is
// there shows whose the object is.
const maxOwners = 8

// KeepOwners makes an informer of metadata keep the identity of each object, and the names of the
// first Services that own it.
func KeepOwners(object any) (any, error) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone
	}
	kept := identityOf(o)
	for _, r := range o.OwnerReferences {
		if r.APIVersion == "v1" && r.Kind == "Service" && len(r.Name) <= validation.DNS1123LabelMaxLength && len(kept.OwnerReferences) < maxOwners {
			kept.OwnerReferences = append(kept.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: r.Name})
		}
	}
	return kept, nil
}

func identityOf(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: api.Identity(&o.ObjectMeta)}
}
