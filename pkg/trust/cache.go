package trust

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
)

// newCache makes a cache with no more in it than is looked at.
func newCache(ctx context.Context, mgr manager.Manager, reads []read) (cache.Cache, error) {
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{},
	}
	for _, r := range reads {
		options.ByObject[r.object] = r.by
		if r.paged {
			options.NewInformer = pagedInformers(r)
		}
	}
	c, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	for _, r := range reads {
		if r.index == nil {
			continue
		}
		if err := c.IndexField(ctx, r.object, indexAsked, r.index); err != nil {
			return nil, fmt.Errorf("index a cache: %w", err)
		}
	}
	return c, nil
}

func byName(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }

// oneConfigMap selects one object, so that RBAC can be narrowed to its name.
func oneConfigMap(namespace, name string, strip func(client.Object)) []read {
	return []read{{object: &corev1.ConfigMap{}, by: cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {FieldSelector: byName(name)}},
		Transform:  transform(strip),
	}}}
}

// keptAnnotations are those that ask for the bundle.
var keptAnnotations = []string{api.AnnotationInjectCABundle, api.OpenShiftInjectCABundle, api.OpenShiftInjectCABundleAlpha}

// transform strips an object of what is nobody's concern here.
func transform(strip func(client.Object)) toolscache.TransformFunc {
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
			accessor.SetAnnotations(only(accessor.GetAnnotations(), keptAnnotations...))
		}
		strip(obj)
		return obj, nil
	}
}

// ownEntry returns what FieldManager owns, and no more.
func ownEntry(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for _, e := range entries {
		if isOurs(e) {
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
			out[key] = value
		}
	}
	return out
}
