package openshift

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// programs are those of an installation, in the order in which they start here:
// the webhook needs what the signer issues.
var programs = []string{"signer", "trust", "rotator", "webhook"}

const (
	soon = time.Minute  // far longer than anything here takes, but the rotator's patience
	tick = harness.Tick // between two looks
)

// running are the programs that do.
var running = map[string]*harness.Program{}

// startAll runs all programs with --openshift-compat, and returns once they are
// ready. What it returns ends those that were started, and reports what no test may overlook.
func startAll(ctx context.Context) (stop func() error, err error) {
	stop = func() (err error) {
		for _, p := range running {
			p.Kill()
			err = errors.Join(err, p.Err())
		}
		return err
	}
	for _, name := range programs {
		flags, err := flagsOf(ctx, name)
		if err != nil {
			return stop, err
		}
		program, of := deploy.Program(name)
		p := &harness.Program{Path: filepath.Join(dir, program), Args: slices.Concat([]string{"--openshift-compat", "--metrics-addr=0"}, of, flags)}
		if err := p.Run(); err != nil {
			return stop, err
		}
		running[name] = p
		if err := p.AwaitReady(ctx); err != nil {
			return stop, fmt.Errorf("%w\n%s", err, p.Log.String())
		}
	}
	return stop, awaitWebhookCA(ctx)
}

// command is a program with the flag, whose end a test waits for.
func command(name string, flags ...string) (*exec.Cmd, *harness.Log) {
	log := &harness.Log{}
	program, of := deploy.Program(name)
	cmd := exec.Command(filepath.Join(dir, program), slices.Concat([]string{"--openshift-compat", "--metrics-addr=0"}, of, flags)...)
	cmd.Stderr = log
	return cmd, log
}

// flagsOf lets a program run outside a cluster as its ServiceAccount; the webhook
// where its Service leads, with the certificate that the signer gives it.
func flagsOf(ctx context.Context, name string) ([]string, error) {
	account, err := plane.ServiceAccountConfig(ctx, api.DefaultNamespace, "servingcert-"+name)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, name+".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, account); err != nil {
		return nil, err
	}
	flags := []string{"--kubeconfig=" + kubeconfig}
	if name != "webhook" {
		return flags, nil
	}
	certs := filepath.Join(dir, "certs")
	if err := await(ctx, func() error { return writeCerts(ctx, certs) }); err != nil {
		return nil, err
	}
	var service corev1.Service
	if err := admin.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-webhook"}, &service); err != nil {
		return nil, err
	}
	return append(flags, "--cert-dir="+certs, "--bind-address="+service.Spec.ClusterIP, "--port=9443", "--shutdown-delay=0s"), nil
}

// writeCerts does what the kubelet would.
func writeCerts(ctx context.Context, to string) error {
	var secret corev1.Secret
	if err := admin.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-webhook-tls"}, &secret); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// awaitWebhookCA returns when pods can be created in a labelled namespace: the
// API server has taken up the caBundle that the rotator wrote.
func awaitWebhookCA(ctx context.Context) error {
	ns := &corev1.Namespace{}
	ns.Name, ns.Labels = "asks", map[string]string{api.LabelInject: api.InjectEnabled}
	if err := admin.Create(ctx, ns); err != nil {
		return err
	}
	return await(ctx, func() error {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}}}
		pod.Namespace, pod.Name, pod.Annotations = ns.Name, "asks", map[string]string{api.AnnotationSecretName: "asks-tls"}
		if err := admin.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if pod.Labels[api.LabelInjected] == "" {
			return fmt.Errorf("a pod was not injected: %v", pod.Annotations)
		}
		return nil
	})
}

// await waits until what is nil. The last error tells what was missing.
func await(ctx context.Context, what func() error) error {
	var err error
	for end := time.Now().Add(soon); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(tick) {
		if err = what(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not within %s: %w", soon, err)
}
