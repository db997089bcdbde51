package trust

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager owns the fields that hold the bundle, and no others.
const FieldManager = "servingcert-trust"

// IsOwnEntry reports whether an entry of managed fields belongs to FieldManager's
// server-side applies.
func IsOwnEntry(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// IsOwned reports whether FieldManager owns a field of the object.
func IsOwned(obj metav1.Object) bool { return slices.ContainsFunc(obj.GetManagedFields(), IsOwnEntry) }

// OwnsOtherKey reports whether FieldManager owns a key of a ConfigMap's data or binaryData
// that is not applied now, because the annotations requested it before. The apply would
// remove that key.
func OwnsOtherKey(obj metav1.Object, r Request, bundle Bundle) bool {
	keys := r.keys(r.wants(bundle))
	for _, entry := range obj.GetManagedFields() {
		if !IsOwnEntry(entry) || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Data   map[string]json.RawMessage `json:"f:data"`
			Binary map[string]json.RawMessage `json:"f:binaryData"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		for _, of := range []map[string]json.RawMessage{fields.Data, fields.Binary} {
			for field := range of {
				if name, isKey := strings.CutPrefix(field, "f:"); isKey && !slices.Contains(keys, name) {
					return true
				}
			}
		}
	}
	return false
}
