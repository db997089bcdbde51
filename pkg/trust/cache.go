package trust

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
)

// newCaches makes the caches, each with no more in it than is looked at, and
// adds them to mgr.
func newCaches(mgr manager.Manager, namespace string, kinds []Target) (caches, error) {
	objects := map[client.Object]cache.ByObject{
		&corev1.Namespace{}: { // read as metadata only
			Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
			Transform: transform(func(client.Object) {}),
		},
	}
	for _, kind := range kinds {
		by := cache.ByObject{Transform: transform(kind.Strip)}
		if named, ok := kind.finder.(perNamespace); ok {
			by.Field = byName(named.name)
		}
		objects[kind.Object] = by
	}
	var c caches
	for into, options := range map[*cache.Cache]cache.Options{
		&c.targets: {ByObject: objects},
		&c.source:  oneConfigMap(namespace, api.CAStatusName, stripConfigMap),
		&c.status:  oneConfigMap(namespace, api.TrustStatusName, func(client.Object) {}),
	} {
		options.HTTPClient, options.Scheme, options.Mapper = mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()
		made, err := cache.New(mgr.GetConfig(), options)
		if err != nil {
			return caches{}, fmt.Errorf("make a cache: %w", err)
		}
		if err := mgr.Add(made); err != nil {
			return caches{}, fmt.Errorf("add a cache: %w", err)
		}
		*into = made
	}
	return c, nil
}

func byName(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }

// oneConfigMap selects one object, so that RBAC can be narrowed to its name.
func oneConfigMap(namespace, name string, strip func(client.Object)) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{namespace: {FieldSelector: byName(name)}},
			Transform:  transform(strip),
		},
	}}
}

// transform strips an object of what is nobody's concern here.
func transform(strip func(client.Object)) toolscache.TransformFunc {
	return func(in any) (any, error) {
		obj, ok := in.(client.Object)
		if !ok { // a tombstone
			return in, nil
		}
		if accessor, err := meta.Accessor(obj); err == nil {
			accessor.SetManagedFields(ours(accessor.GetManagedFields()))
			accessor.SetOwnerReferences(nil)
			accessor.SetFinalizers(nil)
			accessor.SetLabels(only(accessor.GetLabels(), api.LabelInject))
			accessor.SetAnnotations(only(accessor.GetAnnotations(), api.AnnotationInjectCABundle))
		}
		strip(obj)
		return obj, nil
	}
}

// ours returns the fact that FieldManager owns something, without what.
func ours(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for _, e := range entries {
		if isOurs(e) {
			return []metav1.ManagedFieldsEntry{{Manager: e.Manager, Operation: e.Operation}}
		}
	}
	return nil
}

// only returns m with no other key than the given one.
func only(m map[string]string, key string) map[string]string {
	if value, ok := m[key]; ok {
		return map[string]string{key: value}
	}
	return nil
}
