package target

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// Transform strips objects, as a cache does before it keeps them, of what nothing
// here reads. strip removes what is particular to a type.
func Transform(strip func(client.Object)) toolscache.TransformFunc {
	return func(in any) (any, error) {
		obj, ok := in.(client.Object)
		if !ok { // a tombstone
			return in, nil
		}
		if accessor, err := meta.Accessor(obj); err == nil {
			accessor.SetManagedFields(ownEntry(accessor.GetManagedFields()))
			accessor.SetOwnerReferences(nil)
			accessor.SetFinalizers(nil)
			accessor.SetGenerateName("")
			accessor.SetLabels(stripLabels(accessor.GetLabels()))
			accessor.SetAnnotations(api.KeepOnly(accessor.GetAnnotations(), keptAnnotations))
		}
		strip(obj)
		return obj, nil
	}
}

// keptAnnotations are those that say what is requested.
var keptAnnotations = slices.Concat(trust.RequestAnnotations(), trust.FileAnnotations())

// What nearly all opted-in namespaces, and nearly all ConfigMaps that are written there, have
// in common is in memory once: there may be tens of thousands, each in several caches.
var (
	optedInLabels = map[string]string{api.LabelInject: api.InjectEnabled}
	ownsBundleKey = []metav1.ManagedFieldsEntry{{
		Manager: trust.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:` + api.BundleKey + `":{}}}`),
	}}
)

// stripLabels returns the label that opts a namespace in, nil if it is not there.
func stripLabels(labels map[string]string) map[string]string {
	if labels[api.LabelInject] == api.InjectEnabled {
		return optedInLabels
	}
	return api.KeepOnly(labels, []string{api.LabelInject})
}

// maxFields is the most bytes that are kept of the fields that were applied: those of a few keys.
const maxFields = 1 << 10

// ownEntry returns only the entry of FieldManager.
func ownEntry(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for _, e := range entries {
		if trust.IsOwnEntry(e) {
			if e.FieldsV1 != nil && e.FieldsV1.GetRawString() == ownsBundleKey[0].FieldsV1.GetRawString() {
				return ownsBundleKey
			}
			if e.FieldsV1 != nil && len(e.FieldsV1.GetRawString()) > maxFields {
				return nil // not what was written here
			}
			return []metav1.ManagedFieldsEntry{{Manager: e.Manager, Operation: e.Operation, FieldsV1: e.FieldsV1}}
		}
	}
	return nil
}
