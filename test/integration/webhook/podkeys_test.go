package webhook_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// without are kube-apiserver's flags that turn off what keys of pods and the
// ClusterTrustBundle need.
func without() []string { return cluster.FeatureArgs(false, controlplane.Features()...) }

// withFlags runs kube-apiserver with these flags instead until the test ends. The
// webhook runs on, and connects again.
func withFlags(t *testing.T, flags ...string) {
	t.Helper()
	again := func(flags ...string) {
		cluster.StopAPIServer()
		require.NoError(t, cluster.StartAPIServer(context.Background(), flags...))
	}
	again(flags...)
	t.Cleanup(func() { again() })
}

// keysService is one whose pods make their keys.
func keysService(name string) *corev1.Service {
	svc := webService(name)
	svc.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}
	return svc
}

// refusal waits until the pod is refused, and returns why.
func refusal(t *testing.T, ns string, pod *corev1.Pod, because string) string {
	t.Helper()
	var refused error
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, refused = client.CoreV1().Pods(ns).Create(t.Context(), pod, dryRun)
		assert.ErrorContains(c, refused, because)
	}, harness.Soon, 100*time.Millisecond)
	return refused.Error()
}

const noPodKeys = `Service "web" has servingcert.dev/key-source: pod, but this cluster does not serve PodCertificateRequests`

// TestTheGateIsTurnedOffAndOn: the webhook runs on. A pod with a key of its own is never
// accepted without its source, from the first moment on; the webhook notices soon, and the
// preview of the live cluster says the same.
func TestTheGateIsTurnedOffAndOn(t *testing.T) {
	harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
	ns := namespace(t, enabled)
	createService(t, t, ns, keysService("web"))
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), dryRun)
	require.NoError(t, err)
	require.NotNil(t, pod.Spec.Volumes[len(pod.Spec.Volumes)-1].Projected.Sources[0].PodCertificate)
	ofNoService := webPod("other")

	t.Run("off", func(t *testing.T) {
		withFlags(t, without()...)
		// Until the webhook has noticed, the policy refuses. Either is a refusal.
		harness.Eventually(t, func() error {
			pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), dryRun)
			if err == nil {
				t.Fatalf("a pod without its source was accepted: %+v", pod.Spec.Volumes)
			}
			if !strings.Contains(err.Error(), noPodKeys) {
				return err
			}
			return nil
		})
		said := refusal(t, ns, webPod("web"), noPodKeys)
		assert.Contains(t, said, "Kubernetes 1.37 does by default, and 1.36 with feature gate PodCertificateRequest and API certificates.k8s.io/v1beta1; or set servingcert.dev/key-source: secret")
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), ofNoService, dryRun)
		require.NoError(t, err, "others are not concerned")

		_, previewed, _ := strings.Cut(previewLive(t, ns), "refused: ")
		assert.Contains(t, previewed, strings.TrimPrefix(said, `admission webhook "pods.servingcert.dev" denied the request: `))
	})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		pod, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), dryRun)
		if assert.NoError(c, err) {
			assert.NotNil(c, pod.Spec.Volumes[len(pod.Spec.Volumes)-1].Projected.Sources[0].PodCertificate)
		}
	}, harness.Soon, 100*time.Millisecond, "the gate is on again")
	assert.Contains(t, hook.Log.String(), "PodCertificateRequests are not served any more")
}

// previewLive returns what the command prints about Deployment web of testdata.
func previewLive(t *testing.T, ns string) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, cluster.AdminConfig()))
	out, _ := exec.CommandContext(t.Context(), plugin, "inject", "--live", "--kubeconfig", kubeconfig, "-n", ns, "-f", "testdata/deployment.yaml").CombinedOutput()
	return string(out)
}

// TestAnEmptiedSourceIsRefused: the API is served, and the gate of the projection alone is
// off, which nobody can ask an API server about.
func TestAnEmptiedSourceIsRefused(t *testing.T) {
	harness.Needs(t, cluster.AdminConfig(), controlplane.ClusterTrustBundles)
	writeTrustBundle(t)
	restart(t, hook.dir, "--trust-source=clustertrustbundle")
	t.Cleanup(func() { restart(t, hook.dir) })
	secret, keys, other := namespace(t, enabled), namespace(t, enabled), namespace(t, enabled)
	createService(t, t, secret, webService("web"))
	createService(t, t, keys, keysService("web"))
	withFlags(t, "--feature-gates=ClusterTrustBundleProjection=false")
	refused := func(t *testing.T, ns string) {
		t.Helper()
		said := refusal(t, ns, webPod("web"), "ValidatingAdmissionPolicy 'servingcert-whole-pods'")
		assert.Contains(t, said, "this API server has removed the clusterTrustBundle source from the pod: turn on feature gate ClusterTrustBundleProjection, which is on by default since Kubernetes 1.37, or set --trust-source=configmap")
	}
	refused(t, secret)
	t.Run("key of the pod", func(t *testing.T) {
		harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
		refused(t, keys)
	})
	_, err := client.CoreV1().Pods(other).Create(t.Context(), webPod("web"), dryRun)
	require.NoError(t, err, "others are not concerned")
}

// writeTrustBundle writes the ClusterTrustBundle in the rotator's stead.
func writeTrustBundle(t *testing.T) {
	t.Helper()
	certificates, err := controlplane.CertificatesOf(t.Context(), cluster.AdminConfig())
	require.NoError(t, err)
	bundles := certificates.ClusterTrustBundles()
	_, err = bundles.Create(t.Context(), &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: api.TrustBundleName},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: api.SignerName, TrustBundle: string(hook.authority.CAPEM)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, bundles.Delete(context.Background(), api.TrustBundleName, metav1.DeleteOptions{}))
	})
}

// TestTrustSource: the webhook is ready once the ClusterTrustBundle is there, and pods of
// every kind get it, as the API server stores them.
func TestTrustSource(t *testing.T) {
	harness.Needs(t, cluster.AdminConfig(), controlplane.ClusterTrustBundles)
	hook.Kill()
	t.Cleanup(func() { restart(t, hook.dir) })
	require.NoError(t, hook.start(hook.dir, "--trust-source=clustertrustbundle"))
	harness.Eventually(t, func() error {
		if !strings.Contains(hook.Log.String(), "ClusterTrustBundle servingcert.dev:serving:ca does not exist: the rotator writes it if its --targets include ClusterTrustBundle") {
			return fmt.Errorf("the log does not say what is missing")
		}
		return nil
	})
	require.Error(t, hook.Ready(t.Context()))
	writeTrustBundle(t)
	require.NoError(t, hook.AwaitReady(t.Context()))

	trusting, keys, web := webPod("client"), webPod("keys"), webPod("web")
	trusting.Annotations = map[string]string{api.AnnotationTrust: "true"}
	ns := namespace(t, enabled)
	createService(t, t, ns, keysService("keys"))
	createService(t, t, ns, webService("web"))
	for _, tc := range []struct {
		pod     *corev1.Pod
		sources int
	}{{trusting, 1}, {keys, 2}, {web, 2}} {
		t.Run(tc.pod.Name, func(t *testing.T) {
			if tc.pod == keys {
				harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
			}
			pod, err := client.CoreV1().Pods(ns).Create(t.Context(), tc.pod, dryRun)
			require.NoError(t, err)
			sources := pod.Spec.Volumes[len(pod.Spec.Volumes)-1].Projected.Sources
			require.Len(t, sources, tc.sources)
			bundle := sources[len(sources)-1].ClusterTrustBundle
			require.NotNil(t, bundle, "%s: %+v", pod.Name, sources)
			assert.Equal(t, api.SignerName, *bundle.SignerName)
			assert.Equal(t, &metav1.LabelSelector{}, bundle.LabelSelector)
			assert.Equal(t, api.BundleKey, bundle.Path)
			assert.Equal(t, pod.Name != "client", bundle.Optional != nil && *bundle.Optional, "a client waits for it")
		})
	}
}

// TestTrustSourceThatIsNotServed: the webhook does not start, and says what to do.
func TestTrustSourceThatIsNotServed(t *testing.T) {
	hook.Kill()
	t.Cleanup(func() { restart(t, hook.dir) })
	withFlags(t, without()...)
	require.NoError(t, hook.start(hook.dir, "--trust-source=clustertrustbundle"))
	harness.Eventually(t, func() error {
		if !strings.Contains(hook.Log.String(), "the API server does not serve ClusterTrustBundles: Kubernetes 1.37 does by default, and 1.33 with feature gates") {
			return fmt.Errorf("it does not say why it does not start")
		}
		return nil
	})
	require.Error(t, hook.Ready(t.Context()))
}
