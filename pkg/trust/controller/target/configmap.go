package target

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// namespaceConfigMap is ConfigMap servingcert-ca.crt of every opted-in
// namespace, created where it is missing.
//
// The name is servingcert's by contract (pods mount it without asking who made
// it), so the key of a ConfigMap of that name that someone else created is
// overwritten; its other keys stay.
func namespaceConfigMap() Kind {
	k := configMapKind("NamespaceConfigMap", trust.NamespaceRequest, perNamespace{api.BundleName})
	k.strip = func(obj client.Object) { trust.StripConfigMap(obj.(*corev1.ConfigMap), trust.AllFiles()) } // the namespace may ask
	return k
}

// annotatedConfigMap is one key of a ConfigMap of any namespace whose annotation
// requests it, and files that are made of the bundle.
func annotatedConfigMap(openShift bool) Kind {
	request := func(obj metav1.Object) trust.Request { return trust.RequestOf(obj, openShift) }
	of := annotated{object: &corev1.ConfigMap{}, items: &corev1.ConfigMapList{}, openShift: openShift}
	k := configMapKind("ConfigMap", request, annotatedConfigMaps{of})
	k.document = func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
		return configMapDocument(obj, request(obj), bundle).WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion())
	}
	return k
}

// configMapKind is what both have in common: keys of a ConfigMap.
func configMapKind(name string, request func(metav1.Object) trust.Request, f finder) Kind {
	return Kind{
		Name:        name,
		Object:      &corev1.ConfigMap{},
		addToScheme: corev1.AddToScheme,
		finder:      f,
		strip:       func(obj client.Object) { trust.StripConfigMap(obj.(*corev1.ConfigMap), request(obj)) },
		evaluate: func(obj client.Object, bundle trust.Bundle) trust.Evaluation {
			return trust.EvaluateConfigMap(obj.(*corev1.ConfigMap), request(obj), bundle)
		},
		clear: func(obj client.Object, bundle trust.Bundle) []byte {
			return trust.ClearConfigMap(obj.(*corev1.ConfigMap), request(obj), bundle)
		},
		moved: func(obj client.Object, bundle trust.Bundle) bool {
			return trust.OwnsOtherKey(obj, request(obj), bundle)
		},
		lacks: func(obj client.Object, bundle trust.Bundle) string { return request(obj).Lacks(bundle) },
		proof: func(obj client.Object, bundle trust.Bundle) string {
			return trust.Proof(obj.(*corev1.ConfigMap), request(obj), bundle)
		},
		document: func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
			return configMapDocument(obj, request(obj), bundle)
		},
	}
}

func configMapDocument(obj client.Object, request trust.Request, bundle trust.Bundle) *applycorev1.ConfigMapApplyConfiguration {
	data, binary := trust.ConfigMapData(request, bundle)
	return applycorev1.ConfigMap(obj.GetName(), obj.GetNamespace()).WithData(data).WithBinaryData(binary)
}
