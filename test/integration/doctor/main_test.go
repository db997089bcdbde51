// Package doctor tests kubectl servingcert doctor, as a person runs it, against a real API
// server: before an installation, after it with the processes running, and with one thing
// after the other broken.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	rotatorapp "github.com/servingcert/servingcert/cmd/rotator/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	webhookapp "github.com/servingcert/servingcert/cmd/webhook/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane *controlplane.ControlPlane
	admin client.Client
	dir   string // of the programs and what they read
)

const system = api.DefaultNamespace

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{Features: []controlplane.Feature{controlplane.ClusterTrustBundles}},
		Programs:     harness.Programs{"kubectl-servingcert": pluginapp.Main, "signer": signerapp.Main, "rotator": rotatorapp.Main, "webhook": webhookapp.Main},
	}, func(_ context.Context, s *harness.Suite) error {
		plane, admin, dir = s.Plane, s.Client, s.Dir
		return nil
	})
}

// result is what a command printed and how it ended.
type result struct {
	out, err string
	code     int
}

// command is doctor, with arguments.
func command(t *testing.T, kubeconfig string, args ...string) (*exec.Cmd, *harness.Log, *harness.Log) {
	t.Helper()
	return plugin(t, kubeconfig, append([]string{"doctor"}, args...)...)
}

func plugin(t *testing.T, kubeconfig string, args ...string) (*exec.Cmd, *harness.Log, *harness.Log) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl-servingcert"), args...)
	out, errs := &harness.Log{}, &harness.Log{}
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+kubeconfig), out, errs
	return cmd, out, errs
}

// run runs doctor to its end.
func runAs(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	cmd, out, errs := command(t, kubeconfig, args...)
	return ended(t, cmd, out, errs)
}

// ended runs a command to its end.
func ended(t *testing.T, cmd *exec.Cmd, out, errs *harness.Log) result {
	t.Helper()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func examined(t *testing.T, args ...string) (doctor.Report, int) {
	t.Helper()
	r := runAs(t, plane.KubeconfigFile(), append(args, "-o", "json")...)
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(r.out), &report), r.out+r.err)
	return report, r.code
}

// has reports whether a finding of the check, at the level, says the text.
func has(r doctor.Report, level doctor.Level, id doctor.ID, text string) bool {
	return slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool {
		return f.Level == level && f.ID == id && strings.Contains(f.Object+": "+f.Message, text)
	})
}

// texts returns the findings that are not ok, for a failed test to show.
func texts(r doctor.Report) string {
	var b strings.Builder
	for _, f := range r.AtLeast(doctor.Info) {
		fmt.Fprintf(&b, "%s %s %s: %s\n", f.Level, f.ID, f.Object, f.Message)
	}
	return b.String()
}

// start runs a program as its ServiceAccount until the test ends, or stop is called, and
// waits until it is ready.
func start(t *testing.T, program string, flags ...string) (stop func()) {
	t.Helper()
	p, err := harness.Process(t.Context(), plane, dir, program, flags...)
	require.NoError(t, err)
	p.Start(t)
	return p.Kill
}

// allReady says in the Deployments' status that their replicas are ready: no kubelet runs
// here, and the processes run beside the API server.
func allReady(t *testing.T) {
	t.Helper()
	for _, name := range []string{"signer", "trust", "rotator", "webhook"} {
		d := &appsv1.Deployment{}
		require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-" + name}, d))
		d.Status = appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
		require.NoError(t, admin.Status().Update(t.Context(), d))
	}
}
