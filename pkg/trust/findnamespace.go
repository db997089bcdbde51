package trust

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
)

// namespaceMetadata is an empty object of the type that namespaces are cached
// as: their metadata only.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return ns
}

// readNamespaces reads the metadata of the opted-in ones.
func readNamespaces() read {
	return read{object: namespaceMetadata(), by: cache.ByObject{
		Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
		Transform: transform(func(client.Object) {}),
	}}
}

// onNamespace looks at the ConfigMap of the name when its namespace changes.
func onNamespace(c cache.Cache, name string) source.Source {
	return source.Kind(c, namespaceMetadata(), handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, ns *metav1.PartialObjectMetadata) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ns.Name, Name: name}}}
		}))
}

// optedIn reports whether the namespace asks for the bundle. One that is being
// deleted takes no new objects.
func optedIn(ns *metav1.PartialObjectMetadata) bool {
	return ns.DeletionTimestamp == nil && ns.Labels[api.LabelInject] == api.InjectEnabled
}

// readNamespace returns a namespace; without its label if it is not opted in.
func readNamespace(ctx context.Context, r client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	ns := namespaceMetadata()
	if err := r.Get(ctx, types.NamespacedName{Name: name}, ns); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Namespace %s from the cache: %w", name, err)
	}
	return ns, nil
}

// perNamespace finds one ConfigMap of a fixed name in every opted-in namespace,
// whether it exists or not.
type perNamespace struct{ name string }

func (f perNamespace) reads(strip func(client.Object)) []read {
	named := read{object: &corev1.ConfigMap{}, by: cache.ByObject{Field: byName(f.name), Transform: transform(strip)}}
	return []read{readNamespaces(), named}
}

func (f perNamespace) watches(c cache.Cache) []source.Source {
	return []source.Source{
		onNamespace(c, f.name),
		source.Kind(c, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}),
	}
}

func (f perNamespace) get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error) {
	ns, err := readNamespace(ctx, r, key.Namespace)
	if err != nil || ns.DeletionTimestamp != nil {
		return place{}, false, err
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
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		err = nil
	}
	if err != nil {
		return place{}, fmt.Errorf("read ConfigMap %s from the cache: %w", key, err)
	}
	return place{key: key, object: cm}, nil
}

// annotatedConfigMaps are those that are annotated, whatever their name, but for
// servingcert's own: what its processes say to each other never, and the bundle of
// an opted-in namespace not a second time.
type annotatedConfigMaps struct{ annotated }

// kubeRootCA is published into every namespace by kube-controller-manager, which
// would put it back without end, and pods need it to trust the API server.
const kubeRootCA = "kube-root-ca.crt"

func (f annotatedConfigMaps) reads(strip func(client.Object)) []read {
	return append(f.annotated.reads(strip), readNamespaces())
}

func (f annotatedConfigMaps) watches(c cache.Cache) []source.Source {
	return append(f.annotated.watches(c), onNamespace(c, api.BundleName))
}

func (f annotatedConfigMaps) get(ctx context.Context, r client.Reader, key types.NamespacedName) (place, bool, error) {
	own, err := f.isOwn(ctx, r, key)
	if own || err != nil {
		return place{}, false, err
	}
	p, asked, err := f.annotated.get(ctx, r, key)
	return withRootCA(p), asked, err
}

func (f annotatedConfigMaps) list(ctx context.Context, r client.Reader) ([]place, error) {
	all, err := f.annotated.list(ctx, r)
	if err != nil {
		return nil, err
	}
	var places []place
	for _, p := range all {
		own, err := f.isOwn(ctx, r, p.key)
		if err != nil {
			return nil, err
		}
		if !own {
			places = append(places, withRootCA(p))
		}
	}
	return places, nil
}

// isOwn reports whether the ConfigMap is another's concern in this program.
func (f annotatedConfigMaps) isOwn(ctx context.Context, r client.Reader, key types.NamespacedName) (bool, error) {
	if slices.Contains([]string{api.CAStatusName, api.TrustStatusName, api.ServingStatusName, api.ConventionalStatusName}, key.Name) {
		return true, nil
	}
	if key.Name != api.BundleName {
		return false, nil
	}
	ns, err := readNamespace(ctx, r, key.Namespace)
	return err == nil && ns.Labels[api.LabelInject] == api.InjectEnabled, err
}

func withRootCA(p place) place {
	if p.key.Name == kubeRootCA {
		p.problem = "ConfigMap " + kubeRootCA + " holds what pods trust the API server by: annotate another"
	}
	return p
}
