package rights

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// certs is the directory with the certificate of all that listens. It is filled once
// the webhook's Secret exists.
func certs() string { return filepath.Join(dir, "certs") }

// start runs a program as its ServiceAccount until the test ends, and waits until
// it is ready. It returns the address of its metrics.
func start(t *testing.T, program string, flags ...string) (metrics string) {
	t.Helper()
	account, err := plane.ServiceAccountConfig(t.Context(), system, "servingcert-"+program)
	require.NoError(t, err)
	kubeconfig := filepath.Join(dir, program+".kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, account))
	metrics, err = harness.FreeAddress()
	require.NoError(t, err)
	binary, of := deploy.Program(program)
	p := &harness.Program{
		Path: filepath.Join(dir, binary),
		Args: slices.Concat([]string{
			"--kubeconfig=" + kubeconfig, "--metrics-addr=" + metrics, "--metrics-cert-dir=" + certs(), "--openshift-compat",
		}, of, flags),
		// An API server before Kubernetes 1.34 does not stream lists: there, informers need
		// the right to list.
		Env: []string{"KUBE_FEATURE_WatchListClient=false"},
	}
	p.Start(t)
	return metrics
}

// startWebhook runs the webhook where its Service leads, with the certificate that
// the signer gives it.
func startWebhook(t *testing.T) (metrics string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(certs(), 0o700))
	for name, data := range secretOf(t, system, "servingcert-webhook-tls").Data {
		require.NoError(t, os.WriteFile(filepath.Join(certs(), name), data, 0o600))
	}
	source := "clustertrustbundle"
	if !harness.Serves(t, plane.AdminConfig(), controlplane.ClusterTrustBundles) {
		source = "configmap"
	}
	return start(t, "webhook", "--cert-dir="+certs(), "--bind-address="+clusterIP(t), "--port=9443", "--trust-source="+source, "--shutdown-delay=0s",
		"--unknown-programs=flags") // so that there is something to take back
}

// clusterIP returns the webhook's address.
func clusterIP(t *testing.T) string {
	t.Helper()
	var service corev1.Service
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-webhook"}, &service))
	return service.Spec.ClusterIP
}

// secretOf waits for a Secret.
func secretOf(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	harness.Eventually(t, func() error {
		return admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
	})
	return secret
}
