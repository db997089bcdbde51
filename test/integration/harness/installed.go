package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/pkg/api"
)

// Kubeconfig writes a file into a new directory in dir, with which a program is the
// ServiceAccount, and returns its path.
func Kubeconfig(ctx context.Context, plane *controlplane.ControlPlane, dir, namespace, account string) (string, error) {
	cfg, err := plane.ServiceAccountConfig(ctx, namespace, account)
	if err != nil {
		return "", err
	}
	own, err := os.MkdirTemp(dir, account+"-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(own, "kubeconfig")
	return file, controlplane.WriteKubeconfig(file, cfg)
}

// Process returns a process of an installation, named as its Deployment without
// "servingcert-": the program in dir, as its ServiceAccount, with the flag that makes it that
// process, without metrics, and with flags. Of a flag given twice the last counts.
func Process(ctx context.Context, plane *controlplane.ControlPlane, dir, name string, flags ...string) (*Program, error) {
	kubeconfig, err := Kubeconfig(ctx, plane, dir, api.DefaultNamespace, "servingcert-"+name)
	if err != nil {
		return nil, err
	}
	program, its := deploy.Program(name)
	return &Program{Path: filepath.Join(dir, program), Args: slices.Concat([]string{"--kubeconfig=" + kubeconfig, "--metrics-addr=0"}, its, flags)}, nil
}

// Deployed is Process with all arguments of the Deployment, wherever that is installed.
func Deployed(ctx context.Context, plane *controlplane.ControlPlane, dir string, deployment *appsv1.Deployment, name string, flags ...string) (*Program, error) {
	pod := deployment.Spec.Template.Spec
	kubeconfig, err := Kubeconfig(ctx, plane, dir, deployment.Namespace, pod.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	program, _ := deploy.Program(name)
	return &Program{Path: filepath.Join(dir, program), Args: slices.Concat(pod.Containers[0].Args, []string{"--kubeconfig=" + kubeconfig, "--metrics-addr=0"}, flags)}, nil
}

// WebhookFlags waits until the webhook has its Secret and writes its files into the directory
// certs, as a kubelet does once. It returns the flags with which the webhook serves with them
// where its Service leads: nothing translates a port.
func WebhookFlags(ctx context.Context, c client.Client, certs string) ([]string, error) {
	key := client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-webhook"}
	var secret corev1.Secret
	if err := Await(ctx, func() error {
		return c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-tls"}, &secret)
	}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(certs, 0o700); err != nil {
		return nil, err
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(certs, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	return ServedAt(ctx, c, certs)
}

// ServedAt returns the flags with which the webhook serves, with the files in certs, where its
// Service leads.
func ServedAt(ctx context.Context, c client.Client, certs string) ([]string, error) {
	var service corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-webhook"}, &service); err != nil {
		return nil, err
	}
	return []string{
		"--cert-dir=" + certs, "--bind-address=" + service.Spec.ClusterIP, fmt.Sprintf("--port=%d", service.Spec.Ports[0].Port), "--shutdown-delay=0s",
	}, nil
}

// MountedWebhook returns the flags with which the webhook serves where its Service leads, with files that
// MountWebhook keeps up to date.
func MountedWebhook(t testing.TB, c client.Client) []string {
	t.Helper()
	certs := t.TempDir()
	MountWebhook(t, c, certs)
	flags, err := ServedAt(t.Context(), c, certs)
	require.NoError(t, err)
	return flags
}

// MountWebhook writes the files of the webhook's volume into the directory certs, and updates them until the
// test ends, as a kubelet does. It returns once they are there. They stay if the Secret is deleted.
func MountWebhook(t testing.TB, c client.Client, certs string) {
	t.Helper()
	var deployment appsv1.Deployment
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-webhook"}, &deployment))
	volume := deployment.Spec.Template.Spec.Volumes[0]
	ctx, stop := context.WithCancel(t.Context())
	project := func() error { return kubelet.Project(ctx, c, api.DefaultNamespace, volume, certs) }
	Eventually(t, project)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = project() // the Secret may be deleted
			time.Sleep(Tick)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}
