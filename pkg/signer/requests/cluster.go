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

// Cluster reads the input of decisions about requests. Callers must not modify its results.
type Cluster struct {
	cache    client.Reader // of opted-in Namespaces
	live     client.Reader // reads from the API server
	services Services
	// index finds the services that a request names.
	index *serviceindex.Index
}

// Services is the cache of Services of the signer's controller.
type Services interface {
	Get(key types.NamespacedName) *corev1.Service
	In(namespace string) iter.Seq[*corev1.Service]
	Handle(h func(before, after *corev1.Service))
	Changes(name string, h facts.Handler[*corev1.Service]) source.SyncingSource
}

// NewCluster returns a Cluster. cache is the cache of the signer's controller, and live reads
// from the same API server.
func NewCluster(cache, live client.Reader, services Services, limits api.Limits) *Cluster {
	c := &Cluster{cache: cache, live: live, services: services, index: serviceindex.New(limits)}
	services.Handle(c.index.Change)
	return c
}

// limit sets the limits that determine the names of Services. It is called when the CA changes,
// since the CA determines the former cluster domains.
func (c *Cluster) limit(limits api.Limits) {
	c.index.Limit(limits, c.services.In(metav1.NamespaceAll))
}

// Namespace reports by the cache whether the namespace is opted in and, if so, whether it is
// being deleted.
func (c *Cluster) Namespace(ctx context.Context, name string) (optedIn, terminating bool, err error) {
	o := facts.Metadata("Namespace")
	switch err := c.cache.Get(ctx, types.NamespacedName{Name: name}, o); {
	case apierrors.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("get Namespace %s: %w", name, err)
	}
	return true, o.DeletionTimestamp != nil, nil
}

// LiveNamespace is Namespace, except that it reads a namespace that is not in the cache: it may
// just have been labelled.
func (c *Cluster) LiveNamespace(ctx context.Context, name string) (optedIn, terminating bool, err error) {
	if optedIn, terminating, err = c.Namespace(ctx, name); optedIn || err != nil {
		return optedIn, terminating, err
	}
	// By a list, which the signer may do anyway: a get would need a permission of its own.
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
		if svc := c.services.Get(key); svc != nil && api.AsksSigner(svc) {
			services = append(services, svc)
		}
	}
	return services
}

// Selecting returns the oldest Services that request a certificate and select the pod, at most
// serviceindex.MaxSelecting, and the oldest one that is too large to know whether it does.
func (c *Cluster) Selecting(pod *corev1.Pod) []*corev1.Service {
	if pod == nil {
		return nil
	}
	return c.Requesters(append(c.index.Selecting(pod), c.index.TooLarge(pod.Namespace)...)...)
}

// Holding returns for each of the names, in the form of serviceindex.OtherNames, the oldest
// Services that request it and may have it, at most most of them, the oldest first.
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
		if found := c.index.Holding(name, most, may); len(found) > 0 {
			holders[name] = found
		}
	}
	return holders, err
}

// OthersIn returns the OtherNames of the Services of a namespace, without duplicates.
func (c *Cluster) OthersIn(namespace string) []string { return c.index.OthersIn(namespace) }

// Pod reads a pod from the API server. It returns nil if there is none.
func (c *Cluster) Pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	return c.pod(ctx, key, &client.GetOptions{})
}

// CachedPod reads a pod from the API server's watch cache, which may be slightly stale. That costs
// the API server much less than Pod, which reads from etcd (docs/benchmarks.md).
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
