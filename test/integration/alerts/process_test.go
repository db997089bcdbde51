//go:build alerts

package alerts

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// process is one of the three that runs as its ServiceAccount, with the arguments of its Deployment.
type process struct {
	*harness.Program
	name, dir string
	metrics   string // host:port
}

// start runs the program of that directory. files is where what its volume holds is.
func start(t *testing.T, programs, name, files string, extra ...string) *process {
	t.Helper()
	p := &process{name: name, dir: files}
	var deployment appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), inSystem("servingcert-"+name), &deployment))
	var err error
	p.metrics, err = harness.FreeAddress()
	require.NoError(t, err)
	p.Program, err = harness.Deployed(t.Context(), plane, programs, &deployment, name, append([]string{"--metrics-addr=" + p.metrics, "--metrics-cert-dir=" + p.dir}, extra...)...)
	require.NoError(t, err)
	p.Launch(t)
	p.StopAtEnd(t)
	return p
}

// stop ends the process as the kubelet does. It may be called again.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Stop(), p.name)
}

// project does what the kubelet does with the volume of the Deployment. It returns an error if that has no files.
func project(ctx context.Context, name, dir string) error {
	var deployment appsv1.Deployment
	if err := admin.Get(ctx, inSystem("servingcert-"+name), &deployment); err != nil {
		return err
	}
	return kubelet.Project(ctx, admin, api.DefaultNamespace, deployment.Spec.Template.Spec.Volumes[0], dir)
}

// webhookAddress returns the flag for the ClusterIP at which the API server looks for the webhook.
func webhookAddress(t *testing.T) []string {
	t.Helper()
	var svc corev1.Service
	require.NoError(t, admin.Get(t.Context(), inSystem("servingcert-webhook"), &svc))
	return []string{"--bind-address=" + svc.Spec.ClusterIP} // its port is that of the Service: nothing translates one
}

func inSystem(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: api.DefaultNamespace, Name: name}
}
