//go:build long

package webhook_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestWhatWasAcceptedIsAcceptedWithPodKeys: the same pods, with keys that their kubelets
// make, of the kinds and lifetimes that differ, and with the credential bundle; and with the
// bundle from a ClusterTrustBundle.
func TestWhatWasAcceptedIsAcceptedWithPodKeys(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"plain":                        {},
		"a day, of the slowest kind":   {api.AnnotationDuration: "24h", api.AnnotationKeyAlgorithm: "RSA4096"},
		"shorter than Kubernetes does": {api.AnnotationDuration: "1m", api.AnnotationKeyAlgorithm: "ED25519"},
		"longer than Kubernetes does":  {api.AnnotationDuration: "9000h", api.AnnotationKeyAlgorithm: "RSA2048"},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
			svc := keysService("web")
			maps.Copy(svc.Annotations, annotations)
			acceptsCorpus(t, svc)
		})
	}
	t.Run("with the credential bundle", func(t *testing.T) {
		harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
		acceptsCorpus(t, keysService("web"), func(pod *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, api.AnnotationCombinedPEM, "true")
		})
	})
	t.Run("with a ClusterTrustBundle", func(t *testing.T) {
		harness.Needs(t, cluster.AdminConfig(), controlplane.ClusterTrustBundles)
		writeTrustBundle(t)
		restart(t, hook.dir, "--trust-source=clustertrustbundle")
		t.Cleanup(func() { restart(t, hook.dir) })
		acceptsCorpus(t, webService("web"))
		harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
		acceptsCorpus(t, keysService("web"))
	})
}
