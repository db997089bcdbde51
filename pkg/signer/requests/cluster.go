package requests

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// Cluster reads what decisions about requests depend on. What it returns must not be
// changed.
type Cluster struct {
	cache    client.Reader // the opted-in Namespaces
	live     client.Reader // the API server itself
	services Services
}

// Services is the cache of Services of the signer's controller.
type Services interface {
	// Asking returns the Services of the namespace that ask for a certificate; those of all
	// namespaces if it is metav1.NamespaceAll.
	Asking(namespace string) []*corev1.Service
	Changes(name string, h facts.Handler[*corev1.Service]) source.SyncingSource
}

// NewCluster returns the Cluster of the manager, whose cache must be that of the signer's
// controller.
func NewCluster(mgr manager.Manager, services Services) *Cluster {
	return &Cluster{cache: mgr.GetCache(), live: mgr.GetAPIReader(), services: services}
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

// OptedIn returns the namespaces that are opted in and not being deleted, as far as the
// cache knows.
func (c *Cluster) OptedIn(ctx context.Context) (map[string]bool, error) {
	list, err := namespaces(ctx, c.cache)
	optedIn := map[string]bool{}
	for i := range list {
		if list[i].DeletionTimestamp == nil {
			optedIn[list[i].Name] = true
		}
	}
	return optedIn, err
}

func namespaces(ctx context.Context, r client.Reader, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	return list.Items, nil
}

// Asking returns the Services of the namespace that ask for a certificate; those of all
// namespaces if it is metav1.NamespaceAll.
func (c *Cluster) Asking(namespace string) []*corev1.Service { return c.services.Asking(namespace) }

// Pod reads what the API server has under a pod's name, or nil.
func (c *Cluster) Pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	var pod corev1.Pod
	switch err := c.live.Get(ctx, key, &pod); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Pod %s: %w", key, err)
	}
	return &pod, nil
}
