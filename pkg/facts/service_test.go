package facts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestServiceTransform(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Annotations: map[string]string{api.OpenShiftSecretName: "web-tls", "big": "x"}, Finalizers: []string{"f"},
	}}
	for _, openShift := range []bool{false, true} {
		transform := ServiceTransform(openShift, func(s *corev1.Service) api.Keep {
			_, asks := api.Wants(s)
			assert.Equal(t, openShift, asks)
			return api.Keep{Annotations: []string{api.AnnotationSecretName}, OpenShiftAnnotation: true}
		})
		before := svc.DeepCopy()
		kept, err := transform(svc)
		require.NoError(t, err)
		want := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		if openShift {
			want = api.Translate(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.OpenShiftSecretName: "web-tls"}}})
			delete(want.Annotations, api.OpenShiftSecretName)
		}
		assert.Equal(t, want, kept)
		assert.Equal(t, before, svc, "the informer's object is not changed")
		again, err := transform(kept)
		require.NoError(t, err)
		assert.Equal(t, kept, again, "the transform is idempotent")

		tombstone := toolscache.DeletedFinalStateUnknown{Key: "shop/web", Obj: svc}
		got, err := transform(tombstone)
		require.NoError(t, err)
		assert.Equal(t, tombstone, got)
	}
}

func TestMetadata(t *testing.T) {
	now := metav1.Now()
	secret := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-tls", UID: "u", ResourceVersion: "7", DeletionTimestamp: &now, CreationTimestamp: now,
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}, Labels: map[string]string{"a": "b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "x"}, {APIVersion: "v1", Kind: "Pod", Name: "web"}, {APIVersion: "v1", Kind: "Service", Name: strings.Repeat("x", 64)}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
	}
	want := &metav1.PartialObjectMetadata{
		TypeMeta:   secret.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls", UID: "u", ResourceVersion: "7", DeletionTimestamp: &now},
	}
	kept, err := KeepIdentity(secret)
	require.NoError(t, err)
	assert.Equal(t, want, kept)

	want.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web"}}
	kept, err = KeepWriters(secret)
	require.NoError(t, err)
	assert.Equal(t, want, kept)

	many := secret.DeepCopy()
	for i := range 1000 {
		many.OwnerReferences = append(many.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: fmt.Sprint(strings.Repeat("x", 50), i), UID: "u"})
	}
	kept, err = KeepWriters(many)
	require.NoError(t, err)
	assert.Less(t, kept.(*metav1.PartialObjectMetadata).Size(), 2<<10)

	tombstone := toolscache.DeletedFinalStateUnknown{Key: "shop/web-tls", Obj: secret}
	for _, transform := range []toolscache.TransformFunc{KeepIdentity, KeepWriters} {
		got, err := transform(tombstone)
		require.NoError(t, err)
		assert.Equal(t, tombstone, got)
	}
}
