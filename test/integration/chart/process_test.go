package chart

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
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
	here := []string{"--kubeconfig=" + kubeconfig, "--metrics-addr=0"}
	binary, _ := deploy.Program(program)
	p := &harness.Program{
		Path: filepath.Join(dir, binary), Args: slices.Concat(pod.Containers[0].Args, here, flags), Env: []string{"KUBE_FEATURE_WatchListClient=false"},
	}
	p.Start(t)
	return p.Kill
}
