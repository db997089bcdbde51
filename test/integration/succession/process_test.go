package succession

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	waitFor = harness.Soon
	tick    = harness.Tick
)

// process is one of the programs, run as its ServiceAccount.
type process struct {
	*harness.Program
	flags []string // those that every start has
}

// start runs the program with its Deployment's ServiceAccount, and nothing else of
// that: what a test wants sooner or shorter is in flags.
func start(t *scene, name string, flags ...string) *process {
	t.Helper()
	made, err := harness.Process(t.Context(), t.plane, bin, name)
	require.NoError(t, err)
	p := &process{made, made.Args}
	p.Args = slices.Concat(p.flags, flags)
	p.Start(t)
	return p
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
