package webhook_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func TestWebhookDown(t *testing.T) {
	labelled, unlabelled := namespace(t, enabled), namespace(t, nil)
	hook.Kill()
	t.Cleanup(func() { restart(t, hook.dir) })

	_, err := client.CoreV1().Pods(unlabelled).Create(t.Context(), webPod("web"), metav1.CreateOptions{})
	require.NoError(t, err, "other namespaces are not concerned")
	_, err = client.CoreV1().Pods(systemNamespace).Create(t.Context(), restricted(webPod("own")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err, "its own namespace is left out, though it is labelled")
	optedOut := webPod("opted-out")
	optedOut.Labels[api.LabelInject] = api.InjectDisabled
	_, err = client.CoreV1().Pods(labelled).Create(t.Context(), optedOut, metav1.CreateOptions{})
	require.NoError(t, err, "a pod that opted out never costs a request")

	_, err = client.CoreV1().Pods(labelled).Create(t.Context(), webPod("web"), metav1.CreateOptions{})
	require.ErrorContains(t, err, `failed calling webhook "pods.servingcert.dev"`)
	require.ErrorContains(t, err, "servingcert-webhook.servingcert-system.svc")
}

// restricted makes a pod one that the Pod Security level of that name allows.
func restricted(pod *corev1.Pod) *corev1.Pod {
	yes, no := true, false
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	return pod
}

// restart starts the process again, with further flags, and waits until it serves.
func restart(t *testing.T, certDir string, flags ...string) {
	t.Helper()
	hook.Kill()
	require.NoError(t, hook.start(certDir, flags...))
	require.NoError(t, hook.AwaitReady(context.Background()))
}

func TestTheCertificateMayComeLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	hook.Kill()
	t.Cleanup(func() { restart(t, hook.dir) })
	require.NoError(t, hook.start(dir))
	harness.Eventually(t, func() error {
		return controlplane.GetOK(t.Context(), http.DefaultClient, "http://"+hook.Health()+"/healthz")
	})
	require.Error(t, hook.Ready(t.Context()))
	require.Eventually(t, func() bool { return strings.Contains(hook.Log.String(), "waiting for the certificate") }, harness.Soon, 20*time.Millisecond)

	require.NoError(t, hook.writePair(dir))
	require.NoError(t, hook.AwaitReady(t.Context()))
	first := servedChain(t)

	// The same leaf with a longer chain, as after a succession of the CA.
	leaf, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), append(leaf, hook.authority.CAPEM...), 0o600))
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, first+1, servedChain(t)) }, harness.Soon, 50*time.Millisecond)
}

// servedChain returns how many certificates the webhook serves.
func servedChain(t *testing.T) int {
	t.Helper()
	conn, err := tls.Dial("tcp", net.JoinHostPort(hook.address, fmt.Sprint(webhookPort)), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // only counted
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.GreaterOrEqual(t, conn.ConnectionState().Version, uint16(tls.VersionTLS12))
	return len(conn.ConnectionState().PeerCertificates)
}

// TestNoSilentMiss: where the webhook cannot read the Services it says so, and
// failurePolicy decides.
func TestNoSilentMiss(t *testing.T) {
	ns := namespace(t, enabled)
	roles := client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), webhookName, metav1.GetOptions{})
	require.NoError(t, err)
	allowed := role.Rules
	setRules := func(rules []rbacv1.PolicyRule) {
		ctx := context.Background() // it outlives the test's own
		role, err := roles.Get(ctx, webhookName, metav1.GetOptions{})
		require.NoError(t, err)
		role.Rules = rules
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	setRules(nil)
	t.Cleanup(func() { setRules(allowed); restart(t, hook.dir) })

	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // until the authorizer has seen the change
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), dryRun)
		assert.ErrorContains(c, err, "servingcert cannot tell whether the pod gets a certificate")
		assert.ErrorContains(c, err, ns)
	}, harness.Soon, 50*time.Millisecond)

	setPolicy(t, admissionregistrationv1.Ignore)
	t.Cleanup(func() { setPolicy(t, admissionregistrationv1.Fail) })
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), webPod("web"), dryRun)
		assert.NoError(c, err, "Ignore lets the pod pass")
	}, harness.Soon, 50*time.Millisecond)
}

func setPolicy(t *testing.T, policy admissionregistrationv1.FailurePolicyType) {
	t.Helper()
	ctx := context.Background() // it outlives the test's own
	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	found, err := configurations.Get(ctx, configuration, metav1.GetOptions{})
	require.NoError(t, err)
	found.Webhooks[0].FailurePolicy = &policy
	_, err = configurations.Update(ctx, found, metav1.UpdateOptions{})
	require.NoError(t, err)
}
