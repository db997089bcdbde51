package certmanager

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// reference is where an object reads a Secret.
type reference struct {
	path   []any  // of the object with the member
	member string // whose value names the Secret
	value  map[string]any
	// ca: key ca.crt is read, which our Secrets do not have.
	ca bool
}

// references returns where an object reads a Secret of its namespace.
func references(o object, secret types.NamespacedName) (found []reference) {
	if o.Namespace != secret.Namespace || secret.Name == "" {
		return nil
	}
	var walk func(value any, path []any)
	walk = func(value any, path []any) {
		switch value := value.(type) {
		case map[string]any:
			for _, member := range sorted(value) {
				below, _ := value[member].(map[string]any)
				if below["secretName"] == secret.Name || below["name"] == secret.Name && slices.Contains([]string{"secret", "secretKeyRef", "secretRef"}, member) {
					found = append(found, reference{path, member, below, below["key"] == api.BundleKey || len(itemsOf(below, true)) > 0})
				}
				walk(value[member], append(slices.Clone(path), member))
			}
		case []any:
			for i, elem := range value {
				walk(elem, append(slices.Clone(path), i))
			}
		}
	}
	walk(o.Content, nil)
	return found
}

// itemsOf returns those items of a volume's source that are of key ca.crt, or the others.
func itemsOf(source map[string]any, ca bool) (out []any) {
	items, _ := source["items"].([]any)
	for _, item := range items {
		if item, ok := item.(map[string]any); ok && (item["key"] == api.BundleKey) == ca {
			out = append(out, item)
		}
	}
	return out
}

// replacement returns what reads key ca.crt from ConfigMap servingcert-ca.crt instead, and the
// pair from the Secret still; false where that is not a replacement of the one member.
func (r reference) replacement() (member string, value map[string]any, ok bool) {
	bundle := map[string]any{"name": api.BundleName}
	pair := map[string]any{"name": r.value["secretName"], "items": itemsOf(r.value, false)}
	if optional, ok := r.value["optional"]; ok {
		bundle["optional"], pair["optional"] = optional, optional
	}
	switch {
	case r.value["key"] != nil && (r.member == "secret" || r.member == "secretKeyRef"):
		bundle["key"] = api.BundleKey
		return map[string]string{"secret": "configMap", "secretKeyRef": "configMapKeyRef"}[r.member], bundle, true
	case r.member == "secret" && r.value["secretName"] != nil && len(itemsOf(r.value, false)) > 0:
		bundle["items"] = itemsOf(r.value, true)
		value = map[string]any{"sources": []any{map[string]any{"secret": pair}, map[string]any{"configMap": bundle}}}
		if mode, ok := r.value["defaultMode"]; ok {
			value["defaultMode"] = mode
		}
		return "projected", value, true
	}
	return "", nil, false
}

// bundleInstead lets all that read key ca.crt of the certificate's Secret read ConfigMap
// servingcert-ca.crt, or returns why that cannot be done, having done nothing.
func (w *world) bundleInstead(c *certificate) error {
	var edits []func()
	for _, o := range w.all {
		for _, r := range references(o, c.secret()) {
			if !r.ca {
				continue
			}
			member, value, ok := r.replacement()
			if !ok {
				return fmt.Errorf("%s %s reads key ca.crt of its Secret, which ours do not have (line %d): read ConfigMap %s of the namespace instead", o.Kind, o.Name, o.line(append(slices.Clone(r.path), r.member)...), api.BundleName)
			}
			edits = append(edits, func() {
				w.edits[o.doc] = append(w.edits[o.doc], func(root map[string]any) {
					holder := at(root, slices.Concat(o.At, r.path))
					delete(holder, r.member)
					holder[member] = value
				})
				w.note(o, append(slices.Clone(r.path), r.member), "reads ca.crt from ConfigMap %s now", api.BundleName)
			})
		}
	}
	for _, edit := range edits {
		edit()
	}
	return nil
}
