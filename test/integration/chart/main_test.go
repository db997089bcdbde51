// Package chart tests deploy/chart with the real helm, on a real control plane, in
// another namespace than the default and with other names: what is installed runs with
// its rights and behind its policies, and outlives the release where it should.
package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	root   = "../../.."
	system = "tls"
)

var (
	plane *controlplane.ControlPlane
	admin client.Client
	// dir holds the programs, helm included, and what they write.
	dir string
)

// inside is set for the run in a network namespace of its own.
const inside = "SERVINGCERT_CHART_INSIDE"

// programs are those of cmd that this executable runs as itself.
var programs = harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main, "kubectl-servingcert": pluginapp.Main}

// TestMain runs the tests where pods have addresses that EndpointSlices accept and that lead to this machine.
func TestMain(m *testing.M) {
	programs.RunAs()
	if os.Getenv(inside) == "" {
		harness.Main(m, func(*testing.M) (int, error) {
			_, err := build(context.Background())
			if err != nil {
				return 1, err
			}
			return harness.RunInOwnNetwork(inside + "=1")
		})
	}
	if err := harness.StartOwnNetwork(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	harness.Run(m, harness.Setup{ControlPlane: controlplane.Options{ControllerManager: true}, Programs: programs}, func(ctx context.Context, s *harness.Suite) error {
		plane, admin, dir = s.Plane, s.Client, s.Dir
		built, err := build(ctx)
		if err != nil {
			return err
		}
		return os.Symlink(built, filepath.Join(dir, "helm"))
	})
}

// build builds what the tests run, and returns helm. The second time all of it is in caches.
func build(ctx context.Context) (helm string, err error) {
	if _, err := controlplane.Binaries(ctx, os.Stderr, controlplane.Etcd, controlplane.KubeAPIServer, controlplane.KubeControllerManager, controlplane.Kubectl); err != nil {
		return "", err
	}
	tools, err := controlplane.Tools(ctx, "hack/chart")
	return tools["helm"], err
}

// helm runs a command of helm and returns what it prints.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helmIn(t, system, args...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("helm %v: %s", args, exit.Stderr)
	}
	require.NoError(t, err)
	return out
}

// helmIn runs helm for a release in the namespace.
func helmIn(t *testing.T, namespace string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "helm"), append(args, "--namespace", namespace, "--kubeconfig", plane.KubeconfigFile())...)
	for _, what := range []string{"CACHE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, "HELM_"+what+"_HOME="+filepath.Join(dir, "helm-"+what))
	}
	cmd.Env = append(cmd.Env, "HOME="+dir, "PATH="+os.Getenv("PATH"))
	out, err := cmd.Output()
	return string(out), err
}
