package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// cacheOptions are those of the cache of Services and Namespaces: Services stripped
// to what decisions are made from, and the metadata of opted-in Namespaces.
func cacheOptions(openShift bool) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Service{}: {Transform: ServiceTransform(openShift)},
		NamespaceMetadata(): {
			Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
			Transform: facts.KeepIdentity,
		},
	}}
}

// NamespaceMetadata returns an empty object for the metadata of a Namespace.
func NamespaceMetadata() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return o
}

// ServiceTransform returns what is kept of a Service.
func ServiceTransform(openShift bool) toolscache.TransformFunc {
	return facts.ServiceTransform(openShift, keptOfService)
}

// keptOfService keeps of a Service with a certificate, or that asks for one, what
// decides about pods and its conditions, and of any other Service its identity.
func keptOfService(svc *corev1.Service) api.Keep {
	keep := api.Keep{Conditions: []string{api.ConditionServing, api.ConditionFlags}}
	if api.Asks(svc) {
		keep.Annotations = []string{api.AnnotationSecretName, api.AnnotationKeySource}
	}
	if _, hasPart := api.PartIn(svc); hasPart || api.WantsPodKeys(svc) {
		keep.Annotations = append(keep.Annotations, api.AnnotationRenewAfter)
		keep.Conditions = []string{api.ConditionReady, api.ConditionServing, api.ConditionFlags}
		keep.CreationTimestamp, keep.Selector, keep.Ports, keep.ClusterIP = true, true, true, true
	}
	return keep
}
