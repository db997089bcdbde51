package target

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
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/trust"
)

// readNamespaces reads the metadata of opted-in namespaces.
func readNamespaces() Read {
	return Read{Object: facts.Metadata("Namespace"), By: cache.ByObject{
		Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
		Transform: Transform(func(client.Object) {}),
	}}
}

// onNamespace looks at the ConfigMap of the name when its namespace changes.
func onNamespace(c cache.Cache, name string) source.Source {
	return source.Kind(c, facts.Metadata("Namespace"), handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, ns *metav1.PartialObjectMetadata) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ns.Name, Name: name}}}
		}))
}

// optedIn reports whether the namespace requests the bundle. No objects can be
// created in one that is being deleted.
func optedIn(ns *metav1.PartialObjectMetadata) bool {
	return ns.DeletionTimestamp == nil && ns.Labels[api.LabelInject] == api.InjectEnabled
}

// readNamespace returns a namespace; without its label if it is not opted in.
func readNamespace(ctx context.Context, r client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	ns := facts.Metadata("Namespace")
	if err := r.Get(ctx, types.NamespacedName{Name: name}, ns); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Namespace %s from the cache: %w", name, err)
	}
	return ns, nil
}

// perNamespace finds one ConfigMap of a fixed name in every opted-in namespace,
// whether it exists or not.
type perNamespace struct{ name string }

func (f perNamespace) reads(strip func(client.Object)) []Read {
	named := Read{Object: &corev1.ConfigMap{}, By: cache.ByObject{Field: ByName(f.name), Transform: Transform(strip)}}
	return []Read{readNamespaces(), named}
}

func (f perNamespace) Watches(c cache.Cache) []source.Source {
	return []source.Source{
		onNamespace(c, f.name),
		source.Kind(c, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}),
	}
}

func (f perNamespace) Get(ctx context.Context, r client.Reader, key types.NamespacedName) (Target, bool, error) {
	ns, err := readNamespace(ctx, r, key.Namespace)
	if err != nil || ns.DeletionTimestamp != nil {
		return Target{}, false, err
	}
	ns.Name = key.Namespace // which it has not, if it is not opted in
	t, err := f.in(ctx, r, ns)
	return t, optedIn(ns), err
}

func (f perNamespace) List(ctx context.Context, r client.Reader) ([]Target, error) {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var there corev1.ConfigMapList
	if err := r.List(ctx, &there, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	in := make(map[string]*corev1.ConfigMap, len(there.Items))
	for i := range there.Items {
		if cm := &there.Items[i]; cm.Name == f.name {
			in[cm.Namespace] = cm
		}
	}
	targets := make([]Target, 0, len(namespaces.Items))
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if !optedIn(ns) {
			continue
		}
		t := Target{Key: types.NamespacedName{Namespace: ns.Name, Name: f.name}, Created: ns.CreationTimestamp.Time}
		cm := in[ns.Name]
		if cm == nil {
			cm = f.missing(ns.Name)
		}
		t.Object = asking(ns, cm)
		targets = append(targets, t)
	}
	return targets, nil
}

// missing returns the ConfigMap of a namespace that has none.
func (f perNamespace) missing(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: f.name}}
}

// asking returns the ConfigMap with the annotations by which the namespace asks for files beside the
// bundle. An annotation of the ConfigMap itself counts before that of the namespace, except for
// api.AnnotationTrust: the webhook reads it from the namespace, and has pods wait for the files.
// Only the data of what is returned is ever written.
func asking(ns *metav1.PartialObjectMetadata, cm *corev1.ConfigMap) *corev1.ConfigMap {
	asks := map[string]string{}
	for _, key := range trust.FileAnnotations() {
		if value, ok := ns.Annotations[key]; ok {
			asks[key] = value
		}
	}
	if _, own := cm.Annotations[api.AnnotationTrust]; !own && len(asks) == 0 {
		return cm
	}
	for key, value := range cm.Annotations {
		if key != api.AnnotationTrust {
			asks[key] = value
		}
	}
	out := *cm
	out.Annotations = asks
	return &out
}

// in returns the target in a namespace.
func (f perNamespace) in(ctx context.Context, r client.Reader, ns *metav1.PartialObjectMetadata) (Target, error) {
	key := types.NamespacedName{Namespace: ns.Name, Name: f.name}
	cm := &corev1.ConfigMap{}
	err := r.Get(ctx, key, cm)
	if apierrors.IsNotFound(err) {
		cm, err = f.missing(ns.Name), nil
	}
	if err != nil {
		return Target{}, fmt.Errorf("read ConfigMap %s from the cache: %w", key, err)
	}
	return Target{Key: key, Object: asking(ns, cm)}, nil
}

// annotatedConfigMaps finds annotated ConfigMaps, except servingcert's own: those
// that its processes communicate through, and servingcert-ca.crt of an opted-in
// namespace, which is a target anyway.
type annotatedConfigMaps struct{ annotated }

// kubeRootCA is published into every namespace by kube-controller-manager, which
// would restore it each time. Pods need it to trust the API server.
const kubeRootCA = "kube-root-ca.crt"

func (f annotatedConfigMaps) reads(strip func(client.Object)) []Read {
	return append(f.annotated.reads(strip), readNamespaces())
}

func (f annotatedConfigMaps) Watches(c cache.Cache) []source.Source {
	return append(f.annotated.Watches(c), onNamespace(c, api.BundleName))
}

func (f annotatedConfigMaps) Get(ctx context.Context, r client.Reader, key types.NamespacedName) (Target, bool, error) {
	own, err := f.isOwn(ctx, r, key)
	if own || err != nil {
		return Target{}, false, err
	}
	t, requested, err := f.annotated.Get(ctx, r, key)
	return withRootCA(t), requested, err
}

func (f annotatedConfigMaps) List(ctx context.Context, r client.Reader) ([]Target, error) {
	all, err := f.annotated.List(ctx, r)
	if err != nil {
		return nil, err
	}
	var targets []Target
	for _, t := range all {
		own, err := f.isOwn(ctx, r, t.Key)
		if err != nil {
			return nil, err
		}
		if !own {
			targets = append(targets, withRootCA(t))
		}
	}
	return targets, nil
}

// isOwn reports whether the ConfigMap is one of servingcert's own.
func (f annotatedConfigMaps) isOwn(ctx context.Context, r client.Reader, key types.NamespacedName) (bool, error) {
	if slices.Contains([]string{api.CAStatusName, api.ExtraRootsName, api.TrustStatusName, api.ConventionalStatusName}, key.Name) {
		return true, nil
	}
	if key.Name != api.BundleName {
		return false, nil
	}
	ns, err := readNamespace(ctx, r, key.Namespace)
	return err == nil && ns.Labels[api.LabelInject] == api.InjectEnabled, err
}

func withRootCA(t Target) Target {
	if t.Key.Name == kubeRootCA {
		t.Problem = "ConfigMap " + kubeRootCA + " holds the CA of the API server: annotate another ConfigMap"
	}
	return t
}
