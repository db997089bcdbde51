package trust

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	always := func(metav1.Object) ask { return ask{asked: true, key: api.BundleKey} }
	t := configMapTarget("NamespaceConfigMap", always, perNamespace{api.BundleName})
	t.Document = func(obj client.Object, bundle []byte) runtime.ApplyConfiguration {
		return applycorev1.ConfigMap(obj.GetName(), obj.GetNamespace()).
			WithData(map[string]string{api.BundleKey: string(bundle)})
	}
	return t
}

// annotatedConfigMap is one key of a ConfigMap of any namespace whose annotation
// asks for it.
func annotatedConfigMap(by words) Target {
	of := annotated{object: &corev1.ConfigMap{}, items: &corev1.ConfigMapList{}, words: by}
	t := configMapTarget("ConfigMap", by.of, annotatedConfigMaps{of})
	t.Document = func(obj client.Object, bundle []byte) runtime.ApplyConfiguration {
		return applycorev1.ConfigMap(obj.GetName(), obj.GetNamespace()).
			WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion()).
			WithData(map[string]string{by.of(obj).key: string(bundle)})
	}
	return t
}

// configMapTarget is what both have in common: one key of a ConfigMap.
func configMapTarget(kind string, asks func(metav1.Object) ask, f finder) Target {
	return Target{
		Kind:   kind,
		Object: &corev1.ConfigMap{},
		finder: f,
		Strip:  func(obj client.Object) { stripConfigMap(obj.(*corev1.ConfigMap), asks(obj)) },
		Judge: func(obj client.Object, bundle []byte) Judgement {
			return judgeConfigMap(obj.(*corev1.ConfigMap), asks(obj), bundle)
		},
		Clear: func(obj client.Object) []byte { return clearConfigMap(obj.(*corev1.ConfigMap), asks(obj)) },
		Moved: func(obj client.Object) bool { return ownsOtherKey(obj, asks(obj).key) },
	}
}

// stripConfigMap leaves of a ConfigMap the key that is asked for, and the names of
// those that are in its way. The bundle is the same in all, so that it is kept
// once.
func stripConfigMap(cm *corev1.ConfigMap, a ask) {
	data, binary := cm.Data, cm.BinaryData
	cm.Data, cm.BinaryData = nil, nil
	if !a.asked {
		cm.Immutable = nil
		return
	}
	for key, value := range data {
		switch {
		case key == a.key:
			value = unique.Make(value).Value()
		case a.alone:
			value = ""
		default:
			continue
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[key] = value
	}
	if _, ok := binary[a.key]; ok {
		cm.BinaryData = map[string][]byte{a.key: nil}
	}
}

func judgeConfigMap(cm *corev1.ConfigMap, a ask, bundle []byte) Judgement {
	data, ok := cm.Data[a.key]
	_, binary := cm.BinaryData[a.key]
	others := otherKeys(cm, a)
	switch {
	case ok && bytes.Equal([]byte(data), bundle) && len(others) == 0:
		return holds()
	case cm.Immutable != nil && *cm.Immutable:
		return Judgement{StateRefuses, ReasonImmutable, "the ConfigMap is immutable: it must be deleted and made anew"}
	case binary:
		return differs("key " + a.key + " is in binaryData")
	case !ok:
		return differs("no key " + a.key)
	case !bytes.Equal([]byte(data), bundle):
		return differs("key " + a.key + " holds something else")
	}
	return differs(fmt.Sprintf("beside key %s there is %s", a.key, others[0]))
}

// otherKeys are those of the data that may not be beside the bundle, in order.
func otherKeys(cm *corev1.ConfigMap, a ask) []string {
	if !a.alone {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(cm.Data)), func(key string) bool { return key == a.key })
}

// clearConfigMap is a JSON merge patch that removes what is in the bundle's way:
// the same key of binaryData, beside which the API server would refuse it, and
// other keys where there may be none. nil if nothing is.
func clearConfigMap(cm *corev1.ConfigMap, a ask) []byte {
	type keys map[string]any
	type metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	patch := struct {
		Metadata   metadata `json:"metadata"`
		Data       keys     `json:"data,omitempty"`
		BinaryData keys     `json:"binaryData,omitempty"`
	}{Metadata: metadata{cm.ResourceVersion}, Data: keys{}}
	for _, key := range otherKeys(cm, a) {
		patch.Data[key] = nil
	}
	if _, ok := cm.BinaryData[a.key]; ok {
		patch.BinaryData = keys{a.key: nil}
	}
	if len(patch.Data)+len(patch.BinaryData) == 0 {
		return nil
	}
	out, err := json.Marshal(patch)
	if err != nil {
		return nil // strings and nil always marshal
	}
	return out
}

// ownsOtherKey reports whether our field manager owns a key of the data other than
// the one that is asked for: the annotation says something else than before. An
// apply of the new key alone would take that one away.
func ownsOtherKey(obj client.Object, key string) bool {
	for _, entry := range obj.GetManagedFields() {
		if !isOurs(entry) || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Data map[string]json.RawMessage `json:"f:data"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		for field := range fields.Data {
			if name, isKey := strings.CutPrefix(field, "f:"); isKey && name != key {
				return true
			}
		}
	}
	return false
}
