package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
)

// The kinds that are watched by their metadata alone.
var (
	secretKind    = corev1.SchemeGroupVersion.WithKind("Secret")
	namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")
)

func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}

// CacheOptions are those of the manager that the controller runs in: Services
// stripped to what a request depends on, opted-in Namespaces, and the names of
// the Secrets that are not ours, which may be in the way. Our own Secrets are
// not in it: see secretCache.
func (c Config) CacheOptions() (cache.Options, error) {
	notOurs, err := labels.NewRequirement(api.LabelManagedBy, selection.NotEquals, []string{c.Instance})
	if err != nil {
		return cache.Options{}, fmt.Errorf("--instance: %w", err)
	}
	noCopy := true
	return cache.Options{
		ReaderFailOnMissingInformer: true, // a read must not start a watch of all Secrets with their data
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Service{}: {Transform: serviceTransform(c.OpenShift), UnsafeDisableDeepCopy: &noCopy},
			metadataOf(namespaceKind): {
				Label:                 labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
				Transform:             stripMetadata,
				UnsafeDisableDeepCopy: &noCopy,
			},
			metadataOf(secretKind): {
				Label:                 labels.NewSelector().Add(*notOurs),
				Transform:             stripMetadata,
				UnsafeDisableDeepCopy: &noCopy,
			},
		},
	}, nil
}

// serviceTransform returns what is kept of a Service.
func serviceTransform(openShift bool) toolscache.TransformFunc {
	return func(object any) (any, error) {
		svc, ok := object.(*corev1.Service)
		if !ok {
			return object, nil
		}
		if openShift {
			svc = api.Translate(svc)
		}
		return stripService(svc), nil
	}
}

// stripService keeps what Parse, Merge and the conditions read. Of a Service
// that neither asks nor has our condition that is next to nothing.
func stripService(svc *corev1.Service) *corev1.Service {
	kept := &corev1.Service{ObjectMeta: identity(&svc.ObjectMeta)}
	kept.CreationTimestamp = svc.CreationTimestamp
	for _, key := range []string{
		api.AnnotationSecretName, api.AnnotationDuration, api.AnnotationKeyAlgorithm,
		api.AnnotationExtraDNSNames, api.AnnotationClusterIPs, api.AnnotationRenewAfter,
	} {
		if value, ok := svc.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	if api.OpenShiftWord(svc) != "" {
		api.KeepWord(kept, svc)
		maps.Copy(kept.Annotations, signer.Only(svc.Annotations, signer.OpenShiftOnServices))
	}
	if c := api.Condition(svc, api.ConditionReady); c != nil {
		kept.Status.Conditions = []metav1.Condition{*c}
	}
	kept.Spec.Type = svc.Spec.Type
	kept.Spec.ClusterIP = svc.Spec.ClusterIP
	kept.Spec.ClusterIPs = svc.Spec.ClusterIPs
	if len(kept.Annotations) > 0 {
		kept.Spec.Selector = svc.Spec.Selector
	}
	return kept
}

// stripMetadata keeps who an object is and whose. Annotations above all go:
// kubectl's last-applied-configuration holds the data of a Secret.
func stripMetadata(object any) (any, error) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: identity(&o.ObjectMeta)}
	kept.OwnerReferences = o.OwnerReferences
	return kept, nil
}

func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:         m.Namespace,
		Name:              m.Name,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		DeletionTimestamp: m.DeletionTimestamp,
	}
}

// Indices.
const (
	// bySecret finds the Services that name a Secret; under asksNothing those
	// that name none and still have our condition.
	bySecret    = "servingcert.secret"
	asksNothing = "\x00none" // no annotation value that kubectl can write
	// byOwner finds the managed Secrets that a Service's UID owns.
	byOwner = "owner"
)

func indexService(object client.Object) []string {
	svc, ok := object.(*corev1.Service)
	if !ok {
		return nil
	}
	if name, asks := api.Wants(svc); asks {
		return []string{name}
	}
	if svc.DeletionTimestamp == nil && api.Condition(svc, api.ConditionReady) != nil {
		return []string{asksNothing}
	}
	return nil
}

func indexOwner(object any) ([]string, error) {
	f, ok := object.(*signer.SecretFacts)
	if !ok {
		return nil, fmt.Errorf("index of Secrets: unexpected %T", object)
	}
	var uids []string
	for _, r := range f.OwnerReferences {
		if signer.IsServiceReference(r) {
			uids = append(uids, string(r.UID))
		}
	}
	return uids, nil
}

// serviceReader finds Services in the cache. What it returns is not to be
// changed.
type serviceReader struct{ client.Reader }

func (r serviceReader) indexed(ctx context.Context, namespace, value string) ([]*corev1.Service, error) {
	var list corev1.ServiceList
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(bySecret, value)}); err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	services := make([]*corev1.Service, len(list.Items))
	for i := range list.Items {
		services[i] = &list.Items[i]
	}
	return services, nil
}

// partIn returns the Services that name a Secret and, if it exists, those of
// its owners that live and do not name it.
func (r serviceReader) partIn(ctx context.Context, f *signer.SecretFacts) (asking, owning []*corev1.Service, err error) {
	if asking, err = r.indexed(ctx, f.Namespace, f.Name); err != nil {
		return nil, nil, err
	}
	owners, err := r.ownersOf(ctx, f)
	owning = slices.DeleteFunc(owners, func(svc *corev1.Service) bool { return asksFor(svc, f.Name) })
	return asking, owning, err
}

// ownersOf returns the owners of a Secret that live.
func (r serviceReader) ownersOf(ctx context.Context, f *signer.SecretFacts) ([]*corev1.Service, error) {
	var owners []*corev1.Service
	for _, ref := range f.OwnerReferences {
		if !signer.IsServiceReference(ref) {
			continue
		}
		svc := &corev1.Service{}
		err := r.Get(ctx, types.NamespacedName{Namespace: f.Namespace, Name: ref.Name}, svc)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get Service %s/%s: %w", f.Namespace, ref.Name, err)
		case svc.UID == ref.UID && svc.DeletionTimestamp == nil:
			owners = append(owners, svc)
		}
	}
	return owners, nil
}

func asksFor(svc *corev1.Service, secret string) bool {
	name, asks := api.Wants(svc)
	return asks && name == secret
}

// secretCache holds the facts of the Secrets with our label. It is an informer
// of its own because controller-runtime's caches hold an object or its
// metadata, and nothing derived from it.
type secretCache struct {
	toolscache.SharedIndexInformer
}

func newSecretCache(rest toolscache.Getter, instance string) (*secretCache, error) {
	ours := labels.SelectorFromSet(labels.Set{api.LabelManagedBy: instance}).String()
	source := toolscache.NewFilteredListWatchFromClient(rest, "secrets", metav1.NamespaceAll, func(o *metav1.ListOptions) { o.LabelSelector = ours })
	informer := toolscache.NewSharedIndexInformer(source, &corev1.Secret{}, 0, toolscache.Indexers{byOwner: indexOwner})
	err := informer.SetTransform(func(object any) (any, error) {
		if secret, ok := object.(*corev1.Secret); ok {
			return signer.FactsOf(secret, instance), nil
		}
		return object, nil // facts already, or a tombstone of them
	})
	return &secretCache{informer}, err
}

// Start runs the cache until ctx ends; a manager calls it.
func (c *secretCache) Start(ctx context.Context) error {
	c.RunWithContext(ctx)
	return nil
}

// NeedLeaderElection lets a standby fill its cache.
func (c *secretCache) NeedLeaderElection() bool { return false }

func (c *secretCache) get(key types.NamespacedName) *signer.SecretFacts {
	if object, ok, err := c.GetStore().GetByKey(key.String()); err == nil && ok {
		return object.(*signer.SecretFacts)
	}
	return nil
}

func (c *secretCache) ownedBy(uid types.UID) []*signer.SecretFacts {
	objects, err := c.GetIndexer().ByIndex(byOwner, string(uid))
	if err != nil {
		return nil // the index exists
	}
	return factsOf(objects)
}

func (c *secretCache) all() []*signer.SecretFacts { return factsOf(c.GetStore().List()) }

func factsOf(objects []any) []*signer.SecretFacts {
	facts := make([]*signer.SecretFacts, 0, len(objects))
	for _, o := range objects {
		if f, ok := o.(*signer.SecretFacts); ok {
			facts = append(facts, f)
		}
	}
	return facts
}
