package webhook_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestASecretOfCertManagerIsInjected: with the labels, annotations and keys that cert-manager
// writes for a Certificate, found by its name and by a pod that says so.
func TestASecretOfCertManagerIsInjected(t *testing.T) {
	ns := namespace(t, enabled)
	for _, name := range []string{api.ConventionalSecretName, "web-cm"} {
		_, err := client.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{"controller.cert-manager.io/fao": "true"},
				Annotations: map[string]string{
					"cert-manager.io/certificate-name": name, "cert-manager.io/common-name": "", "cert-manager.io/alt-names": "web." + ns + ".svc",
					"cert-manager.io/ip-sans": "", "cert-manager.io/uri-sans": "", "cert-manager.io/issuer-name": "example",
					"cert-manager.io/issuer-kind": "ClusterIssuer", "cert-manager.io/issuer-group": "cert-manager.io",
				},
			},
			Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}, api.BundleKey: {}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("by-convention"), metav1.CreateOptions{})
	require.NoError(t, err)
	injected(t, pod, api.ConventionalSecretName, twoFlags...)

	named := webPod("by-name")
	named.Annotations = map[string]string{api.AnnotationSecretName: "web-cm", api.AnnotationMode: "args"}
	pod, err = client.CoreV1().Pods(ns).Create(t.Context(), named, metav1.CreateOptions{})
	require.NoError(t, err)
	injected(t, pod, "web-cm", twoFlags...)
}
