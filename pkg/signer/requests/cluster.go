package requests

import (
	"context"
	"errors"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
)

// Cluster reads what decisions about requests depend on. What it returns must not be
// changed.
type Cluster struct {
	cache    client.Reader // the opted-in Namespaces
	live     client.Reader // the API server itself
	services Services
	// directory finds those of the services that a request names.
	directory *serviceindex.Directory
}

// Services is the cache of Services of the signer's controller.
type Services interface {
	Get(key types.NamespacedName) *corev1.Service
	In(namespace string) iter.Seq[*corev1.Service]
	Handle(h func(before, after *corev1.Service))
	Changes(name string, h facts.Handler[*corev1.Service]) source.SyncingSource
}

// NewCluster returns the Cluster of a manager's cache, which must be that of the signer's
// controller, and of the API server that it was filled from.
func NewCluster(cache, live client.Reader, services Services, limits api.Limits) *Cluster {
	c := &Cluster{cache: cache, live: live, services: services, directory: serviceindex.New(limits)}
	services.Handle(c.directory.Change)
	return c
}

// limit makes these the limits by which Services have names. It is called whenever the CA has
// changed: with it, which cluster domains were those of before.
func (c *Cluster) limit(limits api.Limits) {
	c.directory.Limit(limits, c.services.In(metav1.NamespaceAll))
}

// namespaceKind is the kind of which the cache holds the metadata of opted-in objects.
var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

func namespaceMetadata() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(namespaceKind)
	return o
}

// Namespace reports whether the namespace is opted in, and whether it is being deleted if it
// is, as far as the cache knows.
func (c *Cluster) Namespace(ctx context.Context, name string) (optedIn, terminating bool, err error) {
	o := namespaceMetadata()
	switch err := c.cache.Get(ctx, types.NamespacedName{Name: name}, o); {
	case apierrors.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("get Namespace %s: %w", name, err)
	}
	return true, o.DeletionTimestamp != nil, nil
}

// LiveNamespace is Namespace, except that a namespace that the cache does not hold is read: it
// may have been labelled a moment ago.
func (c *Cluster) LiveNamespace(ctx context.Context, name string) (optedIn, terminating bool, err error) {
	if optedIn, terminating, err = c.Namespace(ctx, name); optedIn || err != nil {
		return optedIn, terminating, err
	}
	// By a list: to get any Namespace is a right that the signer does not need.
	list, err := namespaces(ctx, c.live, client.MatchingFields{metav1.ObjectNameField: name}, client.MatchingLabels{api.LabelInject: api.InjectEnabled})
	if err != nil || len(list) == 0 {
		return false, false, err
	}
	return true, list[0].DeletionTimestamp != nil, nil
}

func namespaces(ctx context.Context, r client.Reader, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	return list.Items, nil
}

// Requesters returns the existing Services among the keys that request a certificate.
func (c *Cluster) Requesters(keys ...types.NamespacedName) (services []*corev1.Service) {
	for _, key := range keys {
		if svc := c.services.Get(key); svc != nil && api.Asks(svc) {
			services = append(services, svc)
		}
	}
	return services
}

// Selecting returns the Services that ask for a certificate and select the pod: at most
// serviceindex.MaxSelecting, the oldest; and the oldest one that is too large for that to be known.
func (c *Cluster) Selecting(pod *corev1.Pod) []*corev1.Service {
	if pod == nil {
		return nil
	}
	return c.Requesters(append(c.directory.Selecting(pod), c.directory.TooLarge(pod.Namespace)...)...)
}

// Holding returns of each of the names, which are as serviceindex.OtherNames returns them, so many
// Services that ask for it and may have it, the oldest first.
func (c *Cluster) Holding(ctx context.Context, names []string, most int) (holders map[string][]types.NamespacedName, err error) {
	type standing struct{ optedIn, terminating bool }
	known := map[string]standing{}
	may := func(namespace string, proof bool) bool {
		s, there := known[namespace]
		if !there {
			var failed error
			s.optedIn, s.terminating, failed = c.Namespace(ctx, namespace)
			err = errors.Join(err, failed)
			known[namespace] = s
		}
		return !s.terminating && (s.optedIn || proof)
	}
	holders = map[string][]types.NamespacedName{}
	for _, name := range names {
		if found := c.directory.Holding(name, most, may); len(found) > 0 {
			holders[name] = found
		}
	}
	return holders, err
}

// OthersIn returns the names that the Services of a namespace ask for and that do not say of
// which Service they are, each once.
func (c *Cluster) OthersIn(namespace string) []string { return c.directory.OthersIn(namespace) }

// Pod reads what the API server has under a pod's name, or nil.
func (c *Cluster) Pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	return c.pod(ctx, key, &client.GetOptions{})
}

// CachedPod reads what the API server's watch cache has, which is a moment old. It costs the API
// server much less than Pod, which reads etcd (docs/benchmarks.md).
func (c *Cluster) CachedPod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	return c.pod(ctx, key, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})
}

func (c *Cluster) pod(ctx context.Context, key types.NamespacedName, options *client.GetOptions) (*corev1.Pod, error) {
	var pod corev1.Pod
	switch err := c.live.Get(ctx, key, &pod, options); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Pod %s: %w", key, err)
	}
	return &pod, nil
}
