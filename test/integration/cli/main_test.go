// Package cli tests kubectl-servingcert, as a person runs it, against a real
// kube-apiserver and etcd. Where it waits for the signer or the rotator, a test
// plays their part by writing what they would write; the tests in real_test.go
// have both run.
package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// patience bounds every wait for something that is about to happen.
const patience = harness.Soon

var (
	plane    *controlplane.ControlPlane
	admin    *kubernetes.Clientset
	binaries string // directory of the programs
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{
			Features:           []controlplane.Feature{controlplane.PodCertificates},
			ExtraAPIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
		},
		Programs: harness.Programs{
			"kubectl-servingcert": plugin, "kubectl_complete-servingcert": plugin,
			"signer": signerapp.Main, "rotator": rotator,
		},
	}, func(_ context.Context, s *harness.Suite) error {
		plane, admin, binaries = s.Plane, s.Clientset, s.Dir
		return nil
	})
}

// graceOfPlugin is the environment variable with follow.Timing's Grace, for tests that restart a process
// which the plugin watches: a program with the race detector starts in seconds.
const graceOfPlugin = "SERVINGCERT_TEST_GRACE"

// plugin is kubectl-servingcert, which waits as long as a test for what must come, and not for people to read.
func plugin() {
	timing := pluginapp.DefaultTiming()
	timing.Complete, timing.Follow.Settle = patience, patience
	timing.Follow.PollInterval, timing.Follow.Services, timing.Follow.Grace = 100*time.Millisecond, 100*time.Millisecond, time.Second
	if grace, err := time.ParseDuration(os.Getenv(graceOfPlugin)); err == nil {
		timing.Follow.Grace = grace
	}
	pluginapp.MainWith(timing)
}

// rotator is the rotator, which looks again after a moment at pods that are about to change.
func rotator() {
	rotatorapp.MainWith(func(c *rotatorapp.Config) { c.Rotator.Serving.Pause = 300 * time.Millisecond })
}

// result is what a command printed and how it ended.
type result struct {
	out, err string
	code     int
}

// cli runs kubectl servingcert as the cluster's administrator, without anybody at
// a terminal.
func cli(t *testing.T, args ...string) result {
	t.Helper()
	return cliAs(t, plane.KubeconfigFile(), args...)
}

func cliAs(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	r, err := start(t, kubeconfig, args...).wait()
	require.NoError(t, err)
	return r
}

// command is a run of kubectl servingcert that may not have ended.
type command struct {
	cmd      *exec.Cmd
	out, err harness.Log
}

func start(t *testing.T, kubeconfig string, args ...string) *command {
	t.Helper()
	c := newCommand(t, kubeconfig, args...)
	require.NoError(t, c.cmd.Start())
	return c
}

func newCommand(t *testing.T, kubeconfig string, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	c := &command{cmd: exec.CommandContext(ctx, filepath.Join(binaries, "kubectl-servingcert"), args...)}
	c.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	return c
}

func (c *command) wait() (result, error) {
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		err = nil
	}
	return result{c.out.String(), c.err.String(), c.cmd.ProcessState.ExitCode()}, err
}

// newNamespace makes a namespace with a name of its own.
func newNamespace(t *testing.T, prefix string, labels map[string]string) string {
	t.Helper()
	name := prefix + "-" + utilrand.String(6)
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { // what is served anywhere counts for all
		services, err := admin.CoreV1().Services(name).List(context.Background(), metav1.ListOptions{})
		require.NoError(t, err)
		for i := range services.Items {
			require.NoError(t, admin.CoreV1().Services(name).Delete(context.Background(), services.Items[i].Name, metav1.DeleteOptions{}))
		}
	})
	return name
}
