package chart

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// start runs a program as its Deployment says: its arguments, its ServiceAccount. What
// belongs to this machine comes last and counts. The returned function ends it.
func start(t *testing.T, program string, flags ...string) (stop func()) {
	t.Helper()
	var deployment appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-" + program}, &deployment))
	pod := deployment.Spec.Template.Spec
	account, err := plane.ServiceAccountConfig(t.Context(), system, pod.ServiceAccountName)
	require.NoError(t, err)
	kubeconfig := filepath.Join(dir, program+".kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, account))
	health, err := harness.FreeAddress()
	require.NoError(t, err)
	here := []string{"--kubeconfig=" + kubeconfig, "--metrics-addr=0", "--health-addr=" + health}
	log := &harness.Log{}
	cmd := exec.Command(filepath.Join(dir, program), slices.Concat(pod.Containers[0].Args, here, flags)...)
	cmd.Env = append(os.Environ(), "KUBE_FEATURE_WatchListClient=false")
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("log of the %s:\n%s", program, log)
		}
	})
	harness.Eventually(t, func() error { return ready(health) })
	return stop
}

func ready(address string) error {
	response, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz says %s", response.Status)
	}
	return nil
}
