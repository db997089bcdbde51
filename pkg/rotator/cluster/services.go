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
// the metadata of opted-in Namespaces.
func cacheOptions(openShift bool) cache.Options {
	return facts.Paged(cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Service{}: {Transform: facts.ServiceTransform(openShift, Keep)},
		facts.Metadata("Namespace"): {
			Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
			Transform: facts.KeepIdentity,
		},
	}})
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
	keep := api.Keep{Conditions: []string{api.ConditionServing, api.ConditionPodsHealthy}}
	if api.Asks(svc) {
		keep.Annotations = []string{api.AnnotationSecretName, api.AnnotationKeySource, api.AnnotationClients}
	}
	if _, hasPart := state.PartIn(svc); hasPart || api.WantsPodKeys(svc) {
		keep.Annotations = append(keep.Annotations, api.AnnotationRenewAfter, api.AnnotationProbe)
		keep.Conditions = []string{api.ConditionReady, api.ConditionServing, api.ConditionPodsHealthy}
		keep.CreationTimestamp, keep.Selector, keep.Ports, keep.ClusterIP = true, true, true, true
	}
	return keep
}
