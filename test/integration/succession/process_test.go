package succession

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	waitFor = time.Minute
	tick    = 20 * time.Millisecond
)

// logBuffer holds what was logged; safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// process is one of the programs, run as its ServiceAccount.
type process struct {
	name  string
	flags []string
	log   *logBuffer
	cmd   *exec.Cmd
}

// start runs the program with its Deployment's ServiceAccount, and nothing else of
// that: what a test wants sooner or shorter is in flags.
func start(t *testing.T, name string, flags ...string) *process {
	t.Helper()
	cfg, err := plane.ServiceAccountConfig(t.Context(), api.DefaultNamespace, "servingcert-"+name)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, cfg))
	p := &process{name: name, log: &logBuffer{}, flags: append([]string{"--kubeconfig=" + kubeconfig, "--metrics-addr=0"}, flags...)}
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
func (p *process) run(t *testing.T) {
	t.Helper()
	health := freeAddress(t)
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
func cli(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "kubectl-servingcert"), append(args, "--kubeconfig="+plane.KubeconfigFile())...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=")
	out, err := cmd.CombinedOutput()
	t.Logf("$ kubectl servingcert %q\n%s", args, out)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
