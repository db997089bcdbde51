package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestSameStatus(t *testing.T) {
	data := map[string]string{api.BundleKey: "x"}
	cm := withStatus(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{api.AnnotationRotate: "because"}, Labels: map[string]string{"mine": "stays"},
	}}, data)
	require.True(t, sameStatus(cm, data))
	assert.Equal(t, "because", cm.Annotations[api.AnnotationRotate])
	assert.Equal(t, "stays", cm.Labels["mine"])
	for name, spoil := range map[string]func(*corev1.ConfigMap){
		"a changed key":   func(cm *corev1.ConfigMap) { cm.Data = map[string]string{api.BundleKey: "y"} },
		"a missing key":   func(cm *corev1.ConfigMap) { cm.Data = nil },
		"one more key":    func(cm *corev1.ConfigMap) { cm.Data = map[string]string{api.BundleKey: "x", "more": ""} },
		"binary data":     func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"more": nil} },
		"a label is gone": func(cm *corev1.ConfigMap) { delete(cm.Labels, "app.kubernetes.io/name") },
	} {
		spoiled := cm.DeepCopy()
		spoil(spoiled)
		assert.False(t, sameStatus(spoiled, data), name)
		assert.True(t, sameStatus(withStatus(spoiled, data), data), name)
	}
}
