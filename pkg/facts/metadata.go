package facts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// KeepOwners makes an informer of metadata keep the identity and the owners of
// each object, as far as [api.Owners] does.
func KeepOwners(object any) (any, error) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone
	}
	kept := identityOf(o)
	kept.OwnerReferences = api.Owners(o.OwnerReferences)
	return kept, nil
}

func identityOf(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: api.Identity(&o.ObjectMeta)}
}
