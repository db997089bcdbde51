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
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
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

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if dir, err = os.MkdirTemp("", "servingcert-doctor-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := harness.Build(ctx, dir, "kubectl-servingcert", "signer", "rotator", "webhook"); err != nil {
		return 1, err
	}
	if plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if admin, err = client.New(plane.AdminConfig(), client.Options{}); err != nil {
		return 1, err
	}
	return m.Run(), nil
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
	account, err := plane.ServiceAccountConfig(t.Context(), system, "servingcert-"+program)
	require.NoError(t, err)
	kubeconfig := filepath.Join(dir, program+".kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, account))
	binary, of := deploy.Program(program)
	p := &harness.Program{Path: filepath.Join(dir, binary), Args: slices.Concat([]string{"--kubeconfig=" + kubeconfig, "--metrics-addr=0"}, of, flags)}
	p.Start(t)
	return p.Kill
}

// startWebhook runs the webhook where its Service leads, with the certificate that the
// signer gives it.
func startWebhook(t *testing.T) (stop func()) {
	t.Helper()
	certs := filepath.Join(dir, "certs")
	require.NoError(t, os.MkdirAll(certs, 0o700))
	secret, service := &corev1.Secret{}, &corev1.Service{}
	harness.Eventually(t, func() error {
		return admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-webhook-tls"}, secret)
	})
	for name, data := range secret.Data {
		require.NoError(t, os.WriteFile(filepath.Join(certs, name), data, 0o600))
	}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-webhook"}, service))
	return start(t, "webhook", "--cert-dir="+certs, "--bind-address="+service.Spec.ClusterIP, "--port=9443")
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
