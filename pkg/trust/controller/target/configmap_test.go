package target

import (
	"encoding/json"
	"maps"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// written is what the API server has after the writes that put the bundle into the
// ConfigMap: the merge patch of Clear and the apply of Document, both made from
// what the cache has.
func written(t require.TestingT, kind Kind, cm, cached *corev1.ConfigMap, bundle string) *corev1.ConfigMap {
	after := cm.DeepCopy()
	if patch := kind.Clear(cached, trust.Bundle{}); patch != nil {
		before, err := json.Marshal(cm)
		require.NoError(t, err)
		merged, err := evanphx.MergePatch(before, patch)
		require.NoError(t, err)
		after = &corev1.ConfigMap{}
		require.NoError(t, json.Unmarshal(merged, after))
	}
	doc, err := json.Marshal(kind.document(cached, trust.Bundle{PEM: []byte(bundle)}))
	require.NoError(t, err)
	applied := &corev1.ConfigMap{}
	require.NoError(t, json.Unmarshal(doc, applied))
	if after.Data == nil {
		after.Data = map[string]string{}
	}
	maps.Copy(after.Data, applied.Data)
	return after
}

func stripped(t require.TestingT, kind Kind, cm *corev1.ConfigMap) *corev1.ConfigMap {
	out, err := Transform(kind.strip)(cm.DeepCopy())
	require.NoError(t, err)
	return out.(*corev1.ConfigMap)
}

// Whatever is in a ConfigMap that asks: what is written makes it hold the bundle,
// changes nothing else, and is decided alike from the API server's object and from
// the cache's.
func TestConfigMapProperties(t *testing.T) {
	keys := rapid.SampledFrom([]string{"ca.crt", "service-ca.crt", "a", "b"})
	rapid.Check(t, func(t *rapid.T) {
		kind := annotatedConfigMap(true)
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "trust", UID: "u", ResourceVersion: "7",
				Annotations: map[string]string{rapid.SampledFrom([]string{own, beta, alpha}).Draw(t, "annotation"): "true"}},
			Data: rapid.MapOf(keys, rapid.SampledFrom([]string{"bundle", "old", ""})).Draw(t, "data"),
		}
		for _, key := range rapid.SliceOfDistinct(keys, rapid.ID[string]).Draw(t, "binary") {
			if _, taken := cm.Data[key]; !taken { // the API server lets a key be in one of both
				cm.BinaryData = map[string][]byte{key: {1}}
			}
		}
		immutable := rapid.Bool().Draw(t, "immutable")
		cm.Immutable = &immutable
		a := trust.RequestOf(cm, true)

		cached := stripped(t, kind, cm)
		evaluated := kind.evaluate(cm, trust.Bundle{PEM: []byte("bundle")})
		assert.Equal(t, evaluated, kind.evaluate(cached, trust.Bundle{PEM: []byte("bundle")}))
		right := cm.Data[a.Key] == "bundle" && (!a.Alone || len(cm.Data) == 1)
		assert.Equal(t, right, evaluated.State == trust.StateHolds)
		assert.Equal(t, !right && immutable, evaluated.State == trust.StateRefuses)
		if evaluated.State != trust.StatePending {
			return
		}

		after := written(t, kind, cm, cached, "bundle")
		assert.Equal(t, trust.Holds(), kind.evaluate(after, trust.Bundle{PEM: []byte("bundle")}))
		assert.Nil(t, kind.Clear(after, trust.Bundle{}))
		for key, value := range cm.Data {
			got, kept := after.Data[key]
			assert.True(t, key == a.Key || kept != a.Alone && (a.Alone || got == value), "key %s of the data", key)
		}
		for key := range cm.BinaryData {
			_, kept := after.BinaryData[key]
			assert.Equal(t, key != a.Key, kept, "key %s of binaryData", key)
		}
	})
}

func TestConfigMapClear(t *testing.T) {
	tests := []struct {
		name       string
		annotation string
		data       map[string]string
		bin        map[string][]byte
		want       string // "" for nothing
	}{
		{"ours", own, map[string]string{"a": "x"}, map[string][]byte{"b": {1}}, ""},
		{"ours, taken by bytes", own, nil, map[string][]byte{"b": {1}, "ca.crt": {1}}, `{"metadata":{"resourceVersion":"7"},"binaryData":{"ca.crt":null}}`},
		{"ours, theirs is no concern", own, map[string]string{"service-ca.crt": "x"}, nil, ""},
		{"theirs, alone", beta, map[string]string{"service-ca.crt": "x"}, map[string][]byte{"b": {1}}, ""},
		{"theirs, others", beta, map[string]string{"service-ca.crt": "x", "b": "y", "a": "z"}, nil, `{"metadata":{"resourceVersion":"7"},"data":{"a":null,"b":null}}`},
		{"theirs, all at once", alpha, map[string]string{"a": "z"}, map[string][]byte{"service-ca.crt": {1}}, `{"metadata":{"resourceVersion":"7"},"data":{"a":null},"binaryData":{"service-ca.crt":null}}`},
	}
	kind := annotatedConfigMap(true)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{tt.annotation: "true"}}, Data: tt.data, BinaryData: tt.bin}
			for from, object := range map[string]*corev1.ConfigMap{"API server": cm, "cache": stripped(t, kind, cm)} {
				if got := kind.Clear(object, trust.Bundle{}); tt.want == "" {
					assert.Empty(t, got, from)
				} else {
					assert.JSONEq(t, tt.want, string(got), from)
				}
			}
		})
	}
}

// An apply of the key that is requested now would remove the other, which may be in
// use.
func TestConfigMapMoved(t *testing.T) {
	owning := func(manager, fields string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Operation: "Apply", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:theirs":{}}}`)},
			{Manager: manager, Operation: "Apply", FieldsV1: metav1.NewFieldsV1(fields)},
		}
	}
	tests := []struct {
		name    string
		managed []metav1.ManagedFieldsEntry
		want    bool
	}{
		{"nothing", nil, false},
		{"the requested key", owning(trust.FieldManager, `{"f:data":{"f:ca.crt":{}}}`), false},
		{"another", owning(trust.FieldManager, `{"f:data":{".":{},"f:service-ca.crt":{}}}`), true},
		{"both", owning(trust.FieldManager, `{"f:data":{"f:ca.crt":{},"f:service-ca.crt":{}}}`), true},
		{"another's", owning("kubectl-2", `{"f:data":{"f:service-ca.crt":{}}}`), false},
		{"garbage", owning(trust.FieldManager, `{"f:data":3}`), false},
		{"no fields", []metav1.ManagedFieldsEntry{{Manager: trust.FieldManager, Operation: "Apply"}}, false},
	}
	kind := annotatedConfigMap(true)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{own: "true", beta: "true"}, ManagedFields: tt.managed}}
			assert.Equal(t, tt.want, kind.Moved(cm, trust.Bundle{}))
			assert.Equal(t, tt.want, kind.Moved(stripped(t, kind, cm), trust.Bundle{}), "from the cache")
		})
	}
}

// All ConfigMaps of a cluster are watched: of those that do not ask, nothing is kept.
func TestConfigMapStripsWhatDoesNotAsk(t *testing.T) {
	immutable := true
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "big", UID: "u", ResourceVersion: "7",
			Labels:      map[string]string{"app": "x"},
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "all of it again"},
			Finalizers:  []string{"example.com/x"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubectl", Operation: "Apply", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:ca.crt":{}}}`)},
			},
		},
		Immutable:  &immutable,
		Data:       map[string]string{"ca.crt": "x", "service-ca.crt": "y", "big": "z"},
		BinaryData: map[string][]byte{"b": {1}},
	}
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "big", UID: "u", ResourceVersion: "7"}}
	assert.Equal(t, want, stripped(t, annotatedConfigMap(false), cm))

	cm.Annotations[beta] = "true"
	kept := stripped(t, annotatedConfigMap(false), cm)
	assert.Empty(t, kept.Data, "without --openshift-compat")
	kept = stripped(t, annotatedConfigMap(true), cm)
	assert.Equal(t, map[string]string{"ca.crt": "", "service-ca.crt": "y", "big": ""}, kept.Data, "the names of what is in the way")
}

// What files a namespace's ConfigMap has: its own annotations count before those of the namespace,
// but for the one by which the webhook has pods wait for files, which it reads from the namespace.
func TestAskingOfANamespace(t *testing.T) {
	type annotations = map[string]string
	for name, test := range map[string]struct{ namespace, configMap, want annotations }{
		"nothing":                  {nil, annotations{"a": "b"}, annotations{"a": "b"}},
		"the namespace alone":      {annotations{api.AnnotationFormats: "truststore.p12", "c": "d"}, annotations{"a": "b"}, annotations{"a": "b", api.AnnotationFormats: "truststore.p12"}},
		"the ConfigMap has a word": {annotations{api.AnnotationFormats: "truststore.p12"}, annotations{api.AnnotationFormats: ""}, annotations{api.AnnotationFormats: ""}},
		"pods wait for files":      {annotations{api.AnnotationTrust: "env"}, annotations{api.AnnotationTrust: "false"}, annotations{api.AnnotationTrust: "env"}},
		"no pod waits for files":   {nil, annotations{api.AnnotationTrust: "env"}, nil},
	} {
		ns := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: test.namespace}}
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(test.configMap)}}
		got := asking(ns, cm)
		if len(test.want) == 0 {
			assert.Empty(t, got.Annotations, name)
		} else {
			assert.Equal(t, test.want, got.Annotations, name)
		}
		assert.Equal(t, test.configMap, cm.Annotations, "%s: the cache's object is not changed", name)
	}
}
