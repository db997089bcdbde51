package succession

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	waitFor = time.Minute
	tick    = harness.Tick
)

// process is one of the programs, run as its ServiceAccount.
type process struct {
	name  string
	flags []string
	log   *harness.Log
	cmd   *exec.Cmd
}

// start runs the program with its Deployment's ServiceAccount, and nothing else of
// that: what a test wants sooner or shorter is in flags.
func start(t *scene, name string, flags ...string) *process {
	t.Helper()
	cfg, err := t.plane.ServiceAccountConfig(t.Context(), api.DefaultNamespace, "servingcert-"+name)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, cfg))
	p := &process{name: name, log: &harness.Log{}, flags: append([]string{"--kubeconfig=" + kubeconfig, "--metrics-addr=0"}, flags...)}
	p.run(t)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of the %s:\n%s", name, p.log)
		}
	})
	return p
}

// run starts the program again, and waits until it is ready.
func (p *process) run(t *scene) {
	t.Helper()
	health, err := harness.FreeAddress()
	require.NoError(t, err)
	p.cmd = exec.Command(filepath.Join(bin, p.name), append([]string{"--health-addr=" + health}, p.flags...)...)
	p.cmd.Stderr = p.log
	require.NoError(t, p.cmd.Start())
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, waitFor, tick, "%s: not ready", p.name)
}

// kill ends the program as a node that fails does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// cli runs kubectl servingcert as an administrator types it.
func cli(t *scene, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "kubectl-servingcert"), append(args, "--kubeconfig="+t.plane.KubeconfigFile())...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=")
	out, err := cmd.CombinedOutput()
	t.Logf("$ kubectl servingcert %q\n%s", args, out)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}
