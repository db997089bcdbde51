package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// An API server without a feature gate, and one that is too old to have it, takes the source
// away and accepts the pod. The gate of PodCertificateRequests is off here.
func TestPodsWithoutTheirSourcesAreRefused(t *testing.T) {
	ns := newNamespace(t, false)
	signer := api.SignerName
	var (
		key    = corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName, KeyType: "ECDSAP256", KeyPath: "tls.key", CertificateChainPath: "tls.crt"}}
		bundle = corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: &metav1.LabelSelector{}, Path: "ca.crt"}}
		secret = corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web-tls"}}}
		config = corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: api.BundleName}}}
	)
	const noKey, noBundle = "removed the podCertificate source from the pod", "removed the clusterTrustBundle source from the pod"
	ofBundle := noBundle
	if harness.Serves(t, cluster.AdminConfig(), controlplane.ClusterTrustBundles) {
		ofBundle = ""
	}
	injected := map[string]string{api.LabelInjected: "true"}
	for _, tc := range []struct {
		name, volume string
		labels       map[string]string
		status       string
		sources      []corev1.VolumeProjection
		refused      string
	}{
		{"no volume", "", injected, `{}`, nil, ""},
		{"Secret and ConfigMap", "servingcert", injected, `{}`, []corev1.VolumeProjection{secret, config}, ""},
		{"own key", "servingcert", injected, `{"keySource":"pod"}`, []corev1.VolumeProjection{key, config}, noKey},
		{"own key, second volume", "servingcert-2", injected, `{"keySource":"pod"}`, []corev1.VolumeProjection{config, key}, noKey},
		{"ClusterTrustBundle", "servingcert", injected, `{}`, []corev1.VolumeProjection{secret, bundle}, ofBundle},
		{"ClusterTrustBundle alone", "servingcert", injected, "", []corev1.VolumeProjection{bundle}, ofBundle},
		{"identity", "servingcert-identity", injected, `{}`, volume.IdentityFolder("example.com"), "the webhook runs with --trust-domain, and this API server has removed a podCertificate or clusterTrustBundle source"},
		{"somebody else's volume", "other", injected, `{}`, []corev1.VolumeProjection{key, bundle}, ""},
		{"not injected", "servingcert", nil, `{"keySource":"pod"}`, []corev1.VolumeProjection{key}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := restrictedPod(ns)
			pod.Labels, pod.Annotations = tc.labels, map[string]string{api.AnnotationStatus: tc.status}
			if tc.volume != "" {
				pod.Spec.Volumes = []corev1.Volume{{Name: tc.volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: tc.sources}}}}
			}
			err := adminClient(t).Create(t.Context(), pod, client.DryRunAll)
			if tc.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "ValidatingAdmissionPolicy 'servingcert-whole-pods'")
			assert.ErrorContains(t, err, tc.refused)
		})
	}
}

// TestAProxyThatIsNoSidecarIsRefused: without its restartPolicy, nothing else of the pod would
// ever start.
func TestAProxyThatIsNoSidecarIsRefused(t *testing.T) {
	ns := newNamespace(t, false)
	always := corev1.ContainerRestartPolicyAlways
	for _, tc := range []struct {
		name    string
		labels  map[string]string
		change  func(c *corev1.Container)
		refused bool
	}{
		{"removed", map[string]string{api.LabelInjected: "true"}, func(*corev1.Container) {}, true},
		{"kept", map[string]string{api.LabelInjected: "true"}, func(c *corev1.Container) { c.RestartPolicy = &always }, false},
		{"not injected", nil, func(*corev1.Container) {}, false},
		{"no proxy", map[string]string{api.LabelInjected: "true"}, func(c *corev1.Container) { c.Args = []string{"--cert-dir=/x"} }, false},
	} {
		pod := restrictedPod(ns)
		pod.Labels = tc.labels
		proxy := *pod.Spec.Containers[0].DeepCopy()
		proxy.Name, proxy.Args = api.ProxyContainer, []string{"--listen=sc-tls-8080=15444:8080"}
		tc.change(&proxy)
		pod.Spec.InitContainers = []corev1.Container{proxy}
		if !tc.refused {
			require.NoError(t, adminClient(t).Create(t.Context(), pod, client.DryRunAll), tc.name)
			continue
		}
		harness.Eventually(t, func() error { // the policy takes a moment after the start
			err := adminClient(t).Create(t.Context(), pod, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "restartPolicy was removed from its init container") {
				return fmt.Errorf("%s: not refused by the policy: %w", tc.name, err)
			}
			return nil
		})
	}
}
