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
	always := func(metav1.Object) trust.Request { return trust.Request{Requested: true, Key: api.BundleKey} }
	k := configMapKind("NamespaceConfigMap", always, perNamespace{api.BundleName})
	k.document = func(obj client.Object, bundle []byte) runtime.ApplyConfiguration {
		return applycorev1.ConfigMap(obj.GetName(), obj.GetNamespace()).
			WithData(map[string]string{api.BundleKey: string(bundle)})
	}
	return k
}

// annotatedConfigMap is one key of a ConfigMap of any namespace whose annotation
// requests it.
func annotatedConfigMap(openShift bool) Kind {
	request := func(obj metav1.Object) trust.Request { return trust.RequestOf(obj, openShift) }
	of := annotated{object: &corev1.ConfigMap{}, items: &corev1.ConfigMapList{}, openShift: openShift}
	k := configMapKind("ConfigMap", request, annotatedConfigMaps{of})
	k.document = func(obj client.Object, bundle []byte) runtime.ApplyConfiguration {
		return applycorev1.ConfigMap(obj.GetName(), obj.GetNamespace()).
			WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion()).
			WithData(map[string]string{request(obj).Key: string(bundle)})
	}
	return k
}

// configMapKind is what both have in common: one key of a ConfigMap.
func configMapKind(name string, request func(metav1.Object) trust.Request, f finder) Kind {
	return Kind{
		Name:        name,
		Object:      &corev1.ConfigMap{},
		addToScheme: corev1.AddToScheme,
		finder:      f,
		strip:       func(obj client.Object) { trust.StripConfigMap(obj.(*corev1.ConfigMap), request(obj)) },
		judge: func(obj client.Object, bundle []byte) trust.Judgement {
			return trust.JudgeConfigMap(obj.(*corev1.ConfigMap), request(obj), bundle)
		},
		clear: func(obj client.Object) []byte { return trust.ClearConfigMap(obj.(*corev1.ConfigMap), request(obj)) },
		moved: func(obj client.Object) bool { return trust.OwnsOtherKey(obj, request(obj).Key) },
	}
}
