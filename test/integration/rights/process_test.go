package rights

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
	metrics, err := harness.FreeAddress()
	require.NoError(t, err)
	p, err := harness.Process(t.Context(), plane, dir, program, slices.Concat([]string{
		"--metrics-addr=" + metrics, "--metrics-cert-dir=" + certs(), "--openshift-compat",
	}, flags)...)
	require.NoError(t, err)
	// An API server before Kubernetes 1.34 does not stream lists: there, informers need
	// the right to list.
	p.Env = []string{"KUBE_FEATURE_WatchListClient=false"}
	p.Start(t)
	return metrics
}

// startWebhook runs the webhook where its Service leads, with the certificate that
// the signer gives it.
func startWebhook(t *testing.T) (metrics string) {
	t.Helper()
	flags, err := harness.WebhookFlags(t.Context(), admin, certs())
	require.NoError(t, err)
	source := "clustertrustbundle"
	if !harness.Serves(t, plane.AdminConfig(), controlplane.ClusterTrustBundles) {
		source = "configmap"
	}
	return start(t, "webhook", append(flags, "--trust-source="+source)...)
}
