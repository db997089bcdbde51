package trust

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
)

// place is one object that is asked to hold the bundle, as the caches know it.
type place struct {
	key    types.NamespacedName
	object client.Object // without a resourceVersion: it does not exist yet
}

// exists reports whether the object is there.
func (p place) exists() bool { return p.object != nil && p.object.GetResourceVersion() != "" }

// judge says what the place holds. Pure.
func (p place) judge(kind Target, bundle Bundle) Judgement {
	if !p.exists() {
		return Judgement{StatePending, ReasonMissing, "the object does not exist"}
	}
	return kind.Judge(p.object, bundle.PEM)
}

// owned reports whether FieldManager owns a field of the object.
func (p place) owned() bool {
	return p.exists() && slices.ContainsFunc(p.object.GetManagedFields(), isOurs)
}

// finder finds the places of one kind.
type finder interface {
	// watches returns what leads to a look at a place.
	watches(c cache.Cache) []source.Source
	// get returns the place at key, and whether something asks for the bundle
	// there. If not, the object may be nil. It is a copy of the cache's.
	get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error)
	// list returns all places.
	list(ctx context.Context, r client.Reader) ([]place, error)
}

// annotated finds the objects of one type that carry AnnotationInjectCABundle.
// Annotations cannot be selected by, so that all objects of the type are
// watched, stripped.
type annotated struct {
	object client.Object     // an empty one
	items  client.ObjectList // an empty list of them
}

// wantsBundle reports whether the object asks for the bundle: one that is being
// deleted does not.
func wantsBundle(obj client.Object) bool {
	return obj.GetDeletionTimestamp() == nil && obj.GetAnnotations()[api.AnnotationInjectCABundle] == "true"
}

func (f annotated) watches(c cache.Cache) []source.Source {
	return []source.Source{source.Kind(c, f.object, &handler.EnqueueRequestForObject{})}
}

func (f annotated) get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error) {
	obj := f.object.DeepCopyObject().(client.Object)
	if err := r.Get(ctx, key, obj); err != nil {
		return place{}, false, client.IgnoreNotFound(err)
	}
	return place{key, obj}, wantsBundle(obj), nil
}

func (f annotated) list(ctx context.Context, r client.Reader) ([]place, error) {
	list := f.items.DeepCopyObject().(client.ObjectList)
	if err := r.List(ctx, list); err != nil {
		return nil, err
	}
	var places []place
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if obj := o.(client.Object); wantsBundle(obj) {
			places = append(places, place{client.ObjectKeyFromObject(obj), obj})
		}
		return nil
	})
	return places, err
}

// perNamespace finds one ConfigMap of a fixed name in every opted-in namespace,
// whether it exists or not.
type perNamespace struct{ name string }

// namespaceMetadata is an empty object of the type that namespaces are cached
// as: their metadata only.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return ns
}

// optedIn reports whether the namespace asks for the bundle. One that is being
// deleted takes no new objects.
func optedIn(ns *metav1.PartialObjectMetadata) bool {
	return ns.DeletionTimestamp == nil && ns.Labels[api.LabelInject] == api.InjectEnabled
}

func (f perNamespace) watches(c cache.Cache) []source.Source {
	inNamespace := func(_ context.Context, ns *metav1.PartialObjectMetadata) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ns.Name, Name: f.name}}}
	}
	return []source.Source{
		source.Kind(c, namespaceMetadata(), handler.TypedEnqueueRequestsFromMapFunc(inNamespace)),
		source.Kind(c, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}),
	}
}

func (f perNamespace) get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error) {
	ns := namespaceMetadata()
	err := r.Get(ctx, types.NamespacedName{Name: key.Namespace}, ns)
	if client.IgnoreNotFound(err) != nil {
		return place{}, false, fmt.Errorf("read Namespace %s from the cache: %w", key.Namespace, err)
	}
	if ns.DeletionTimestamp != nil {
		return place{}, false, nil
	}
	p, err := f.in(ctx, r, key.Namespace)
	return p, optedIn(ns), err
}

func (f perNamespace) list(ctx context.Context, r client.Reader) ([]place, error) {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.List(ctx, namespaces); err != nil {
		return nil, err
	}
	var places []place
	for i := range namespaces.Items {
		if !optedIn(&namespaces.Items[i]) {
			continue
		}
		p, err := f.in(ctx, r, namespaces.Items[i].Name)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

// in returns the place in a namespace.
func (f perNamespace) in(ctx context.Context, r client.Reader, namespace string) (place, error) {
	key := types.NamespacedName{Namespace: namespace, Name: f.name}
	cm := &corev1.ConfigMap{}
	err := r.Get(ctx, key, cm)
	if apierrors.IsNotFound(err) {
		return place{key, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}, nil
	}
	if err != nil {
		return place{}, fmt.Errorf("read ConfigMap %s from the cache: %w", key, err)
	}
	return place{key, cm}, nil
}
