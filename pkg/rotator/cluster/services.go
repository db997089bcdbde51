package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// cacheOptions are those of the cache of Services and Namespaces: Services stripped
// to what decisions are made from, and the metadata of opted-in Namespaces.
func cacheOptions(openShift bool) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Service{}: {Transform: ServiceTransform(openShift)},
		NamespaceMetadata(): {
			Label:     labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
			Transform: stripNamespace,
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
	return func(object any) (any, error) {
		svc, ok := object.(*corev1.Service)
		if !ok {
			return object, nil // a tombstone
		}
		if openShift {
			svc = api.Translate(svc)
		}
		return stripService(svc), nil
	}
}

// stripService leaves of a Service with a certificate, or that asks for one, what
// decides over pods, and what is said of it; of any other who it is.
func stripService(svc *corev1.Service) *corev1.Service {
	out := &corev1.Service{ObjectMeta: identity(&svc.ObjectMeta)}
	if secret, asks := api.Wants(svc); asks {
		out.Annotations = map[string]string{api.AnnotationSecretName: secret}
	}
	_, hasPart := api.PartIn(svc)
	if hasPart {
		out.CreationTimestamp = svc.CreationTimestamp
		out.Spec.Selector, out.Spec.Ports = svc.Spec.Selector, svc.Spec.Ports
	}
	for _, c := range []*metav1.Condition{api.Condition(svc, api.ConditionReady), api.Condition(svc, api.ConditionServing)} {
		if c != nil && (hasPart || c.Type == api.ConditionServing) {
			out.Status.Conditions = append(out.Status.Conditions, *c)
		}
	}
	return out
}

func stripNamespace(object any) (any, error) {
	ns, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: ns.TypeMeta, ObjectMeta: identity(&ns.ObjectMeta)}, nil
}

func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
	}
}
