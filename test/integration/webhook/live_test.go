package webhook_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// TestPreviewOfALiveCluster: the command sees the cluster's Services and labels,
// and finds the pods that were created too early.
func TestPreviewOfALiveCluster(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, cluster.AdminConfig()))
	inject := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), plugin, append([]string{"inject", "--live", "--kubeconfig", kubeconfig, "-o", "report"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	manifest, err := filepath.Abs("testdata/deployment.yaml")
	require.NoError(t, err)

	ns := namespace(t, nil)
	createService(t, t, ns, webService("web"))
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Regexp(t, `Deployment/web .* nothing .* has no label servingcert.dev/inject=enabled`, inject("-n", ns, "-f", manifest))

	label := []byte(`{"metadata":{"labels":{"servingcert.dev/inject":"enabled"}}}`)
	_, err = client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, label, metav1.PatchOptions{})
	require.NoError(t, err)
	require.Regexp(t, `Deployment/web +web +web-tls +files,env `, inject("-n", ns, "-f", manifest))
	require.Regexp(t, ns+` +Pod/web +- +web-tls +missed`, inject("-n", ns))

	awaitLabel(t, ns)
	require.NoError(t, client.CoreV1().Pods(ns).Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NotContains(t, inject("-n", ns), "missed")
}
