package trust

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// namespaceConfigMap is ConfigMap servingcert-ca.crt of every opted-in
// namespace, created where it is missing.
//
// The name is servingcert's by contract (pods mount it without asking who made
// it), so a ConfigMap of that name that someone else made is given the key, by
// force; their other keys stay.
func namespaceConfigMap() Target {
	return Target{
		Kind:     "NamespaceConfigMap",
		Object:   &corev1.ConfigMap{},
		finder:   perNamespace{api.BundleName},
		Strip:    stripConfigMap,
		Judge:    judgeConfigMap,
		Document: configMapDocument,
	}
}

func stripConfigMap(obj client.Object) {
	cm := obj.(*corev1.ConfigMap)
	cm.BinaryData = nil
	data, ok := cm.Data[api.BundleKey]
	cm.Data = nil
	if ok {
		cm.Data = map[string]string{api.BundleKey: data}
	}
}

func judgeConfigMap(obj client.Object, bundle []byte) Judgement {
	cm := obj.(*corev1.ConfigMap)
	data, ok := cm.Data[api.BundleKey]
	switch {
	case ok && bytes.Equal([]byte(data), bundle):
		return holds()
	case cm.Immutable != nil && *cm.Immutable:
		return Judgement{StateRefuses, ReasonImmutable, "the ConfigMap is immutable: delete it, and it is made anew"}
	case !ok:
		return differs("no key " + api.BundleKey)
	}
	return differs("key " + api.BundleKey + " holds something else")
}

func configMapDocument(obj client.Object, bundle []byte) runtime.ApplyConfiguration {
	return applycorev1.ConfigMap(obj.GetName(), obj.GetNamespace()).
		WithData(map[string]string{api.BundleKey: string(bundle)})
}
