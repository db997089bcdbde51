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

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{ControllerManager: true}, Programs: harness.Programs{"signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main, "kubectl-servingcert": pluginapp.Main},
	}, func(ctx context.Context, s *harness.Suite) error {
		plane, admin, dir = s.Plane, s.Client, s.Dir
		return buildHelm(ctx)
	})
}

func buildHelm(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "hack/chart"), "-o", dir+string(filepath.Separator), "tool")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build helm: %w\n%s", err, out)
	}
	return nil
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
