//go:build alerts

package alerts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// process is one of the three that runs as its ServiceAccount, with the arguments of its Deployment.
type process struct {
	name, dir string
	metrics   string // host:port
	log       harness.Log
	cmd       *exec.Cmd
}

// start runs the program of that directory. files is where what its volume holds is.
func start(t *testing.T, programs, name, files string, extra ...string) *process {
	t.Helper()
	p := &process{name: name, dir: files}
	var deployment appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), inSystem("servingcert-"+name), &deployment))
	spec := deployment.Spec.Template.Spec
	account, err := plane.ServiceAccountConfig(t.Context(), api.DefaultNamespace, spec.ServiceAccountName)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, account))
	p.metrics, err = harness.FreeAddress()
	require.NoError(t, err)
	args := slices.Concat(spec.Containers[0].Args, []string{ // of a flag given twice the last counts
		"--kubeconfig=" + kubeconfig, "--metrics-addr=" + p.metrics, "--metrics-cert-dir=" + p.dir, "--health-addr=0",
	}, extra)
	p.cmd = exec.Command(filepath.Join(programs, name), args...)
	p.cmd.Stderr = &p.log
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("log of the %s:\n%s", name, p.log.String())
		}
	})
	return p
}

// stop ends the process as the kubelet does. It may be called again.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.cmd == nil {
		return
	}
	if err := errors.Join(p.cmd.Process.Signal(os.Interrupt), p.cmd.Wait()); err != nil {
		t.Errorf("the %s ended with: %v", p.name, err)
	}
	p.cmd = nil
}

// project does what the kubelet does with the volume of the Deployment. It returns an error if that has no files.
func project(ctx context.Context, name, dir string) error {
	var deployment appsv1.Deployment
	if err := admin.Get(ctx, inSystem("servingcert-"+name), &deployment); err != nil {
		return err
	}
	files, err := kubelet.Files(ctx, admin, api.DefaultNamespace, deployment.Spec.Template.Spec.Volumes[0])
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("the volume of the %s has no files yet", name)
	}
	_, err = kubelet.Write(dir, files)
	return err
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
