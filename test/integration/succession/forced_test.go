package succession

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

const services = 12

// The whole road as an administrator goes it: by the processes of
// deploy/install.yaml, with their rights, killed on the way.
func TestForcedSuccession(test *testing.T) {
	t := fresh(test)
	signer := start(t, "signer", "--ca-soak=2s", "--ca-reissue-window=4s")
	rotator := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now)
	operator := startOperator(t)
	issued := operator.requireCalled(t, "1")
	_, err := cli(t, "renew", operatorService, "-n", operatorNamespace, "--timeout=3m")
	require.NoError(t, err)
	assert.NotEqual(t, issued, operator.requireCalled(t, "1"), "the API server calls it with the renewed certificate")
	first := status(t)
	require.Equal(t, "1", first.Data[api.CAGeneration])
	require.Equal(t, api.PhaseStable, first.Data[api.CAPhase])

	// Without a rotator nobody says that the new root is trusted: it does not sign.
	rotator.Kill()
	_, err = cli(t, "rotate-ca", "--reason", "audit", "--wait=false")
	require.NoError(t, err)
	waiting := eventually(t, "the next generation is made", func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAPhase] == api.PhaseWait })
	assert.Equal(t, "requested: audit", waiting.Data[api.CAWhy])
	assert.Equal(t, "2", waiting.Data[api.CANextGeneration])
	assert.Equal(t, "1", waiting.Data[api.CAGeneration])
	assert.Equal(t, 2, strings.Count(waiting.Data[api.BundleKey], "BEGIN CERTIFICATE"))
	_, err = cli(t, "rotate-ca", "--reason", "audit", "--wait=false")
	require.NoError(t, err, "the same request again asks for nothing")

	// Killed between two steps, and up again: the next is taken from what is stored.
	signer.Kill()
	rotator.Start(t)
	signer.Start(t)
	leads(t, "trust")
	leads(t, "signer") // the Lease of the killed one may be over, and then nobody signs for the command
	out, err := cli(t, "rotate-ca", "--reason", "audit", "--timeout=3m")
	require.NoError(t, err)
	assert.Contains(t, out, "generation 2")
	done := signedBy(t, "2")
	assert.Equal(t, "generation 2 was made and signs", done.Data[api.CARotationOutcome])
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && strings.HasPrefix(tr.issuers()[0], "servingcert CA 2 ") }, waitFor, tick)
	tr.requireNoFailure(t)
	operator.requireCalled(t, "2")
	operator.end()
	out, err = cli(t, "status", "-A")
	require.Error(t, err, "only the signer and the trust rotator run")
	assert.Contains(t, out, "generation 2 signs")
	assert.Contains(t, out, "no webhook runs")

	stored, err := ca.ParseState(secret(t).Data)
	require.NoError(t, err)
	assert.Nil(t, stored.Generations[0].Key, "the key of generation 1 is erased")

	// Two more, and a fourth cross-certificate is refused.
	for _, reason := range []string{"second", "third"} {
		_, err = cli(t, "rotate-ca", "--reason", reason, "--timeout=3m")
		require.NoError(t, err)
	}
	out, err = cli(t, "rotate-ca", "--reason", "fourth", "--timeout=1m")
	require.Error(t, err)
	assert.Contains(t, out, "generation 1")
	assert.Equal(t, "4", status(t).Data[api.CAGeneration])
	tr.requireNoFailure(t)

	// A stranger's root in the published bundle vanishes, everywhere.
	bundle := status(t).Data[api.BundleKey]
	patchStatus(t, map[string]any{"data": map[string]any{api.BundleKey: bundle + first.Data[api.BundleKey]}})
	eventually(t, "the bundle is restored", func(cm *corev1.ConfigMap) bool { return cm.Data[api.BundleKey] == bundle })
	require.Eventually(t, func() bool {
		cm, err := t.admin.CoreV1().ConfigMaps("shop").Get(t.Context(), api.BundleName, metav1.GetOptions{})
		return err == nil && cm.Data[api.BundleKey] == bundle
	}, waitFor, tick)
	tr.requireNoFailure(t)
	tr.stop()

	distrust(t)
	assertNoKeys(t, signer.Log.String()+rotator.Log.String())
}

// distrust leaves everything behind at once: what was served before breaks, and
// what is served then is trusted by those who have the new root alone.
func distrust(t *scene) {
	before := secret(t)
	_, err := cli(t, "rotate-ca", "--reason", "stolen", "--distrust-now", "--yes", "--timeout=3m")
	require.NoError(t, err)
	after := status(t)
	assert.Equal(t, "5", after.Data[api.CAGeneration])
	assert.Equal(t, 1, strings.Count(after.Data[api.BundleKey], "BEGIN CERTIFICATE"))
	stored, err := ca.ParseState(secret(t).Data)
	require.NoError(t, err)
	require.Len(t, stored.Generations, 1)
	for key := range before.Data {
		if strings.HasPrefix(key, "generation-") {
			assert.NotContains(t, secret(t).Data, key, "what may be stolen is gone")
		}
	}
	require.Eventually(t, func() bool {
		cm, err := t.admin.CoreV1().ConfigMaps("shop").Get(t.Context(), api.BundleName, metav1.GetOptions{})
		return err == nil && cm.Data[api.BundleKey] == after.Data[api.BundleKey]
	}, waitFor, tick)
	tr := startTraffic(t, "shop", services, time.Now)
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && strings.HasPrefix(tr.issuers()[0], "servingcert CA 5 ") }, waitFor, tick)
	tr.requireNoFailure(t)
	tr.stop()
}

func status(t *scene) *corev1.ConfigMap {
	t.Helper()
	cm, err := t.admin.CoreV1().ConfigMaps(api.DefaultNamespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
	require.NoError(t, err)
	return cm
}

func secret(t *scene) *corev1.Secret {
	t.Helper()
	s, err := t.admin.CoreV1().Secrets(api.DefaultNamespace).Get(t.Context(), api.CASecretName, metav1.GetOptions{})
	require.NoError(t, err)
	return s
}

func eventually(t *scene, what string, ok func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	var last *corev1.ConfigMap
	if !assert.Eventually(t, func() bool { last = status(t); return ok(last) }, waitFor, tick, what) {
		delete(last.Data, api.BundleKey)
		require.Fail(t, what, "%v", last.Data)
	}
	return last
}

func patchStatus(t *scene, patch map[string]any) {
	t.Helper()
	body, err := json.Marshal(patch)
	require.NoError(t, err)
	_, err = t.admin.CoreV1().ConfigMaps(api.DefaultNamespace).Patch(t.Context(), api.CAStatusName, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
}

// assertNoKeys looks for the PEM of any private key.
func assertNoKeys(t *scene, log string) {
	t.Helper()
	assert.NotContains(t, log, "PRIVATE KEY")
	for key, value := range secret(t).Data {
		if strings.HasSuffix(key, ".key") {
			for _, line := range strings.Split(strings.TrimSpace(string(value)), "\n")[1:3] {
				assert.NotContains(t, log, line)
			}
		}
	}
}
