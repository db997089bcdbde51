package facts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// KeepIdentity is a transform that keeps only the identity of each object. It removes annotations in
// particular: kubectl's last-applied-configuration contains the data of a Secret.
func KeepIdentity(object any) (any, error) {
	if o, ok := object.(*metav1.PartialObjectMetadata); ok {
		return identityOf(o), nil
	}
	return object, nil // a tombstone
}

// maxOwners is the maximum number of owning Services that KeepWriters keeps. One existing Service is enough to
// identify the owner.
const maxOwners = 8

// KeepWriters is a transform that keeps the identity of each object, the names of the first Services that
// own it, and the name of the Certificate that cert-manager writes it for.
func KeepWriters(object any) (any, error) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone
	}
	kept := identityOf(o)
	if name := o.Annotations[api.AnnotationCertificateName]; name != "" {
		kept.Annotations = map[string]string{api.AnnotationCertificateName: api.TruncateAnnotation(api.AnnotationCertificateName, name)}
	}
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
