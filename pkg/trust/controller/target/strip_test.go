package target

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

const (
	beta  = "service.beta.openshift.io/inject-cabundle"
	alpha = "service.alpha.openshift.io/inject-cabundle"
	own   = "servingcert.dev/inject-ca-bundle"
)

// drawnAnnotations are those that could ask, with values of every sort.
func drawnAnnotations(t *rapid.T) map[string]string {
	return rapid.MapOf(rapid.SampledFrom([]string{own, beta, alpha, "note"}),
		rapid.SampledFrom([]string{"true", "false", "True", "yes", ""})).Draw(t, "annotations")
}

// TestOfAValueADigestIsKept: a cache holds next to nothing of it, and
// says the same of it.
func TestOfAValueADigestIsKept(t *testing.T) {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{own: strings.Repeat("x", 256<<10)}},
		Data:       map[string]string{api.BundleKey: strings.Repeat("x", 1<<20)},
	}
	stripped, err := Transform(func(o client.Object) {
		trust.StripConfigMap(o.(*corev1.ConfigMap), trust.Request{Requested: true, Key: api.BundleKey})
	})(cm)
	require.NoError(t, err)
	kept := stripped.(*corev1.ConfigMap)
	assert.LessOrEqual(t, len(kept.Data[api.BundleKey]), 64)
	assert.LessOrEqual(t, len(kept.Annotations[own]), api.MaxAnnotation+1)
	assert.Equal(t, trust.Differs("key ca.crt is not the current CA bundle"), trust.EvaluateConfigMap(kept, trust.Request{Requested: true, Key: api.BundleKey}, trust.Bundle{PEM: []byte("bundle")}))
	assert.Equal(t, trust.Holds(), trust.EvaluateConfigMap(kept, trust.Request{Requested: true, Key: api.BundleKey}, trust.Bundle{PEM: []byte(strings.Repeat("x", 1<<20))}))
}

// A tenant may make thousands of ConfigMaps that ask for the bundle in service-ca's old way, where
// no other key may be beside it, and write as whichever field manager.
func TestOfAConfigMapLittleIsKept(t *testing.T) {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 253), Annotations: map[string]string{alpha: "true"}, Labels: map[string]string{"k": strings.Repeat("l", 63)}},
		Data:       map[string]string{api.OpenShiftBundleKey: strings.Repeat("x", 1<<10)},
	}
	for i := range 5000 {
		cm.Data[fmt.Sprintf("%s-%04d", strings.Repeat("k", 200), i)] = "x"
	}
	fields := `{"f:data":{"f:` + strings.Repeat("k", maxFields) + `":{}}}`
	cm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: trust.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)}}
	stripped, err := Transform(annotatedConfigMap(true).strip)(cm)
	require.NoError(t, err)
	kept := stripped.(*corev1.ConfigMap)
	assert.Less(t, kept.Size(), 2<<10)
	evaluated := trust.EvaluateConfigMap(kept, trust.Request{Requested: true, Key: api.OpenShiftBundleKey, Alone: true}, trust.Bundle{PEM: []byte(strings.Repeat("x", 1<<10))})
	assert.Contains(t, evaluated.Message, "must be the only key")
}

// There may be tens of thousands of namespaces, and the same in each.
func TestWhatAllHaveInCommonIsInMemoryOnce(t *testing.T) {
	strip := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: api.BundleName, Labels: map[string]string{api.LabelInject: api.InjectEnabled, "other": "x"},
				ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: "kubectl", Operation: "Update"},
					{Manager: trust.FieldManager, Operation: "Apply", APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:ca.crt":{}}}`)},
				},
			},
			Data: map[string]string{api.BundleKey: strings.Clone("bundle"), "other": "x"},
		}
		change(cm)
		stripped, err := Transform(namespaceConfigMap().strip)(cm)
		require.NoError(t, err)
		return stripped.(*corev1.ConfigMap)
	}
	same := func(*corev1.ConfigMap) {}
	a := strip(same)
	assert.Equal(t, map[string]string{api.BundleKey: "bundle"}, a.Data)
	assert.Equal(t, map[string]string{api.LabelInject: api.InjectEnabled}, a.Labels)
	assert.True(t, trust.IsOwned(a))
	assert.False(t, trust.OwnsOtherKey(a, trust.Request{Key: api.BundleKey}, trust.Bundle{}))
	assert.True(t, trust.OwnsOtherKey(a, trust.Request{Key: "other"}, trust.Bundle{}))
	at := func(m any) uintptr { return reflect.ValueOf(m).Pointer() }
	b := strip(same)
	assert.Equal(t, []uintptr{at(a.Data), at(a.Labels), at(a.ManagedFields)}, []uintptr{at(b.Data), at(b.Labels), at(b.ManagedFields)})

	c := strip(func(cm *corev1.ConfigMap) {
		cm.Data[api.BundleKey], cm.Labels[api.LabelInject] = "another", "disabled"
		cm.ManagedFields[1].FieldsV1 = metav1.NewFieldsV1(`{"f:data":{"f:other":{}}}`)
	})
	assert.Equal(t, map[string]string{api.BundleKey: "another"}, c.Data)
	assert.Equal(t, map[string]string{api.LabelInject: "disabled"}, c.Labels)
	assert.True(t, trust.OwnsOtherKey(c, trust.Request{Key: api.BundleKey}, trust.Bundle{}))
	assert.Nil(t, strip(func(cm *corev1.ConfigMap) { cm.Data = nil }).Data)
	assert.Equal(t, "bundle", a.Data[api.BundleKey], "what was stripped before stays as it is")
}

// What is stripped before it enters the cache requests the same, and at most one
// of the annotations counts.
func TestStripKeepsRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		compat := rapid.Bool().Draw(t, "compat")
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: drawnAnnotations(t)}}
		whole := trust.RequestOf(cm, compat)
		stripped, err := Transform(annotatedConfigMap(compat).strip)(cm.DeepCopy())
		assert.NoError(t, err)
		assert.Equal(t, whole, trust.RequestOf(stripped.(*corev1.ConfigMap), compat))

		if !compat {
			without := cm.DeepCopy()
			delete(without.Annotations, beta)
			delete(without.Annotations, alpha)
			assert.Equal(t, trust.RequestOf(without, compat), whole, "OpenShift's annotations request nothing")
		}
		if _, ok := cm.Annotations[own]; ok {
			assert.NotEqual(t, api.OpenShiftBundleKey, whole.Key, "ours wins")
		}
		assert.Equal(t, whole.Requested, whole.Key != "")
		assert.False(t, whole.Problem != "" && !whole.Requested)
	})
}
