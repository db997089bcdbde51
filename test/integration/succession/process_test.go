package succession

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
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

// leads waits until a process renews its Lease: rotate-ca exits at once if none does.
func leads(t *scene, kind string) {
	t.Helper()
	started := time.Now()
	require.Eventually(t, func() bool {
		lease, err := t.admin.CoordinationV1().Leases(api.DefaultNamespace).Get(t.Context(), "servingcert-"+kind, metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(started)
	}, waitFor, tick)
}
