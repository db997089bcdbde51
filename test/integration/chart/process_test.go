package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// start runs a program as its Deployment says: its arguments, its ServiceAccount. What
// belongs to this machine comes last and counts. The returned function ends it.
func start(t *testing.T, program string, flags ...string) (stop func()) {
	t.Helper()
	var deployment appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-" + program}, &deployment))
	p, err := harness.Deployed(t.Context(), plane, dir, &deployment, program, flags...)
	require.NoError(t, err)
	p.Env = []string{"KUBE_FEATURE_WatchListClient=false"}
	p.Start(t)
	return p.Kill
}
