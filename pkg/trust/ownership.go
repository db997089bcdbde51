package trust

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager owns the fields that hold the bundle, and no others.
const FieldManager = "servingcert-trust"

// IsOwnEntry reports whether the entry of an object's managed fields is that of
// FieldManager's server-side applies.
func IsOwnEntry(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// IsOwned reports whether FieldManager owns a field of the object.
func IsOwned(obj metav1.Object) bool { return slices.ContainsFunc(obj.GetManagedFields(), IsOwnEntry) }

// OwnsOtherKey reports whether FieldManager owns a key of a ConfigMap's data other
// than the requested one: the annotation requested another before. An apply of the
// new key alone would remove that one.
func OwnsOtherKey(obj metav1.Object, key string) bool {
	for _, entry := range obj.GetManagedFields() {
		if !IsOwnEntry(entry) || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Data map[string]json.RawMessage `json:"f:data"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		for field := range fields.Data {
			if name, isKey := strings.CutPrefix(field, "f:"); isKey && name != key {
				return true
			}
		}
	}
	return false
}
