package kubeletsync

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const root = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"

func TestLeafContent(t *testing.T) {
	for _, replaced := range []bool{true, false} {
		got := LeafContent(serving.Rotation{Leaf: one, Since: rotatortest.Noon, Replaced: replaced})
		assert.Equal(t, Content{Hash: one, Since: rotatortest.Noon, Changed: replaced}, got)
	}
	first, second := LeafContent(serving.Rotation{Leaf: one, Chain: "a"}).Hash, LeafContent(serving.Rotation{Leaf: one, Chain: "b"}).Hash
	assert.NotEqual(t, first, second)
	assert.True(t, api.IsFingerprint(first))
}

func TestBundleOf(t *testing.T) {
	at := func(after time.Duration) *metav1.Time {
		t := metav1.NewTime(rotatortest.Noon.Add(after))
		return &t
	}
	entry := func(after time.Duration, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Time: at(after), FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const bundle, label = `{"f:data":{"f:ca.crt":{}}}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: api.BundleName, UID: "u", ResourceVersion: "7", CreationTimestamp: *at(0), Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{api.BundleKey: "", "other": "x"},
	}
	got := BundleOf(cm)
	_, ok := got.Content()
	assert.False(t, ok, "it holds none")
	_, ok = (*Bundle)(nil).Content()
	assert.False(t, ok)

	cm.Data[api.BundleKey] = root
	got = BundleOf(cm)
	assert.Equal(t, rotatortest.Noon, got.Since, "as old as the ConfigMap")
	assert.Equal(t, metav1.ObjectMeta{Namespace: "shop", Name: api.BundleName, UID: "u", ResourceVersion: "7"}, got.ObjectMeta)
	assert.Len(t, got.Hash, 64)
	assert.Equal(t, got, got.DeepCopyObject())

	cm.ManagedFields = []metav1.ManagedFieldsEntry{entry(time.Hour, bundle), entry(2*time.Hour, label), {}, entry(time.Minute, bundle)}
	content, ok := BundleOf(cm).Content()
	require.True(t, ok)
	assert.Equal(t, Content{Hash: got.Hash, Since: rotatortest.Noon.Add(time.Hour), Changed: true}, content, "the last write of the bundle counts")
	cm.Data[api.BundleKey] = strings.Repeat(root, 2)
	assert.NotEqual(t, got.Hash, BundleOf(cm).Hash)
}
