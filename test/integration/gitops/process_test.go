//go:build gitops

package gitops

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// process is a program that runs.
type process struct {
	name string
	log  harness.Log
	cmd  *exec.Cmd
	done chan struct{}
}

// launch runs the program until the test ends, or stop is called.
func launch(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // when these tests are killed
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, tail(p.log.String(), 12000))
		}
	})
	return p
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }

// stop ends the program as the kubelet does.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// answers waits until a GET of the URL is answered with 200.
func (p *process) answers(t *testing.T, url string) {
	t.Helper()
	harness.Eventually(t, func() error {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended", p.name)
		default:
		}
		return controlplane.GetOK(t.Context(), http.DefaultClient, url)
	})
}

// freePort is a port of loopback.
func freePort(t *testing.T) (port string) {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	return address[len("127.0.0.1:"):]
}

// workDir is a directory of this run that is gone after the test.
func workDir(t *testing.T) string {
	t.Helper()
	work, err := os.MkdirTemp(dir, "work-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(work)) })
	return work
}

// kubeconfigOf writes one of the ServiceAccount.
func kubeconfigOf(t *testing.T, namespace, name string) string {
	t.Helper()
	file, err := harness.Kubeconfig(t.Context(), plane, t.TempDir(), namespace, name)
	require.NoError(t, err)
	return file
}

// clusterAdmin makes the namespace, and a ServiceAccount in it that may do everything, as
// both tools do for themselves.
func clusterAdmin(t *testing.T, namespace, name string) {
	t.Helper()
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
		},
	} {
		require.NoError(t, admin.Create(t.Context(), obj))
	}
}

// plugin runs kubectl servingcert.
func plugin(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "kubectl-servingcert"), append(args, "--kubeconfig="+plane.KubeconfigFile())...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "kubectl servingcert %v\n%s", args, out)
	return string(out)
}
