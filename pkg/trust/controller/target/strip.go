package target

import (
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
			accessor.SetLabels(only(accessor.GetLabels(), api.LabelInject))
			accessor.SetAnnotations(only(accessor.GetAnnotations(), trust.RequestAnnotations()...))
		}
		strip(obj)
		return obj, nil
	}
}

// ownEntry returns only the entry of FieldManager.
func ownEntry(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for _, e := range entries {
		if trust.IsOwnEntry(e) {
			return []metav1.ManagedFieldsEntry{{Manager: e.Manager, Operation: e.Operation, FieldsV1: e.FieldsV1}}
		}
	}
	return nil
}

// only returns m with no other keys than the given ones, nil if it has none.
func only(m map[string]string, keys ...string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if value, ok := m[key]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = api.TruncateAnnotation(value)
		}
	}
	return out
}
