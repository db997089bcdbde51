package rotator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// podCache holds the facts of all pods that have not ended. It is an informer of
// its own because controller-runtime's caches hold an object or its metadata,
// and nothing derived from it.
type podCache struct {
	toolscache.SharedIndexInformer
}

// running leaves out pods that have ended, of which Jobs may leave thousands.
var running = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
).String()

func newPodCache(rest toolscache.Getter) (*podCache, error) {
	lw := toolscache.NewFilteredListWatchFromClient(rest, "pods", metav1.NamespaceAll, func(o *metav1.ListOptions) { o.FieldSelector = running })
	return newPodCacheFrom(lw)
}

func newPodCacheFrom(lw toolscache.ListerWatcher) (*podCache, error) {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc, byMount: indexMounts}
	informer := toolscache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, indexers)
	err := informer.SetTransform(func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return FactsOf(pod), nil
		}
		return object, nil // facts already, or a tombstone of them
	})
	return &podCache{informer}, err
}

// Start runs the cache until ctx ends; a manager calls it.
func (c *podCache) Start(ctx context.Context) error {
	c.RunWithContext(ctx)
	return nil
}

// NeedLeaderElection keeps a standby from holding every pod of the cluster for
// the sake of a metric: it fills the cache in seconds when it leads.
func (c *podCache) NeedLeaderElection() bool { return true }

func (c *podCache) in(namespace string) ([]*PodFacts, error) {
	return c.indexed(toolscache.NamespaceIndex, namespace)
}

// mounting returns the pods that mount the key of the Secret.
func (c *podCache) mounting(namespace, secret string) ([]*PodFacts, error) {
	return c.indexed(byMount, namespace+"/"+secret)
}

// byMount finds pods by the Secrets whose key they mount, NAMESPACE/NAME.
const byMount = "mount"

func indexMounts(object any) ([]string, error) {
	f, ok := object.(*PodFacts)
	if !ok {
		return nil, fmt.Errorf("index of pods: unexpected %T", object)
	}
	var keys []string
	for _, secret := range f.mounts() {
		keys = append(keys, f.Namespace+"/"+secret)
	}
	return keys, nil
}

func (c *podCache) indexed(index, value string) ([]*PodFacts, error) {
	objects, err := c.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil, err
	}
	pods := make([]*PodFacts, 0, len(objects))
	for _, o := range objects {
		if f, ok := o.(*PodFacts); ok {
			pods = append(pods, f)
		}
	}
	return pods, nil
}

// podSource enqueues the namespace of a pod that came, went, or changed in what
// is known of it: most of a pod's updates do not.
type podSource struct {
	pods    *podCache
	enqueue func(q queue, namespace string)
}

// String names the source in logs.
func (s *podSource) String() string { return "pods" }

// WaitForSync returns once all pods are in the cache.
func (s *podSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.pods.HasSynced) {
		return errors.New("the cache of pods did not fill")
	}
	return nil
}

// Start implements source.Source.
func (s *podSource) Start(_ context.Context, q queue) error {
	changed := func(object any) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if f, ok := object.(*PodFacts); ok {
			s.enqueue(q, f.Namespace)
		}
	}
	_, err := s.pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(old, object any) {
			before, ok := old.(*PodFacts)
			after, ok2 := object.(*PodFacts)
			if !ok || !ok2 || before.Template != after.Template || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
				changed(object)
			}
		},
		DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

// cacheOptions are those of the cache of everything else: Services stripped to
// what Choose reads, the metadata of opted-in Namespaces, and where conventional
// Secrets are.
func cacheOptions(cfg Config) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Service{}: {Transform: serviceTransform(cfg.OpenShift)},
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
			cfg.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", api.ConventionalStatusName)},
		}},
		namespaceMetadata(): {
			Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
			Transform: facts.KeepIdentity,
		},
	}}
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return o
}

// serviceTransform returns what is kept of a Service.
func serviceTransform(openShift bool) toolscache.TransformFunc {
	return facts.ServiceTransform(openShift, keptOfService)
}

// keptOfService keeps of a Service with a certificate, or that asks for one, what
// decides about pods and its conditions, and of any other Service its identity.
func keptOfService(svc *corev1.Service) api.Keep {
	keep := api.Keep{Conditions: []string{api.ConditionServing}}
	if _, asks := api.Wants(svc); asks {
		keep.Annotations = []string{api.AnnotationSecretName}
	}
	if _, hasPart := api.PartIn(svc); hasPart {
		keep.Conditions = []string{api.ConditionReady, api.ConditionServing}
		keep.CreationTimestamp, keep.Selector, keep.Ports = true, true, true
	}
	return keep
}

func request(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}
