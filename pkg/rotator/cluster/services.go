package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
)

// cacheOptions configure the cache of Services, stripped to the fields that decisions need, and of
// the identity of opted-in Namespaces with the Services that they list for their pods.
func cacheOptions(openShift bool) cache.Options {
	return facts.Paged(cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Service{}: {Transform: facts.ServiceTransform(openShift, Keep)},
		facts.Metadata("Namespace"): {
			Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
			Transform: keepConnect,
		},
	}})
}

// keepConnect keeps of a Namespace its identity and api.AnnotationConnect.
func keepConnect(object any) (any, error) {
	kept, err := facts.KeepIdentity(object)
	if ns, ok := object.(*metav1.PartialObjectMetadata); ok {
		kept.(*metav1.PartialObjectMetadata).Annotations = api.KeepOnly(ns.Annotations, []string{api.AnnotationConnect})
	}
	return kept, err
}

// Elsewhere returns a Service of an opted-in namespace that asks for a certificate, or nil. The caller must not change it.
func (c *Cluster) Elsewhere(ctx context.Context, id types.NamespacedName) *corev1.Service {
	svc := &corev1.Service{}
	if c.Services.Get(ctx, types.NamespacedName{Name: id.Namespace}, facts.Metadata("Namespace"), client.UnsafeDisableDeepCopy) != nil ||
		c.Services.Get(ctx, id, svc, client.UnsafeDisableDeepCopy) != nil || !api.Asks(svc) {
		return nil
	}
	return svc
}

// Connect returns the Services that the namespace lists for its pods, as annotations of the Namespace.
func (c *Cluster) Connect(ctx context.Context, namespace string) map[string]string {
	ns := facts.Metadata("Namespace")
	_ = c.Services.Get(ctx, types.NamespacedName{Name: namespace}, ns, client.UnsafeDisableDeepCopy) // OptIn reports the error
	return ns.Annotations
}

// OptIn reports whether the namespace is opted in and not being deleted, and whether the webhook
// excludes it by name.
func (c *Cluster) OptIn(ctx context.Context, namespace string) (optedIn, excluded bool, err error) {
	ns := facts.Metadata("Namespace")
	if err := c.Services.Get(ctx, types.NamespacedName{Name: namespace}, ns); client.IgnoreNotFound(err) != nil {
		return false, false, fmt.Errorf("get Namespace %s from the cache: %w", namespace, err)
	} else if err == nil {
		optedIn = ns.DeletionTimestamp == nil
	}
	return optedIn, slices.Contains([]string{metav1.NamespaceSystem, c.Namespace}, namespace), nil
}

// Keep returns the fields to cache. Of a Service that has or asks for a certificate they are those
// that decide about its pods and conditions; of any other Service, its identity.
func Keep(svc *corev1.Service) api.Keep {
	keep := api.Keep{Conditions: []string{api.ConditionServing, api.ConditionGuarded, api.ConditionPodsHealthy}}
	if api.Asks(svc) {
		keep.Annotations = []string{api.AnnotationSecretName, api.AnnotationKeySource, api.AnnotationClients, api.AnnotationConnect, api.AnnotationIssuer}
		keep.Type, keep.ClusterIPs = true, true
	}
	if _, hasPart := state.PartIn(svc); hasPart || api.WantsPodKeys(svc) {
		keep.Annotations = append(keep.Annotations, api.AnnotationRenewAfter, api.AnnotationProbe)
		keep.Conditions = append(keep.Conditions, api.ConditionReady)
		keep.CreationTimestamp, keep.Selector, keep.Ports, keep.ClusterIP = true, true, true, true
	}
	return keep
}
