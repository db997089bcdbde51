package signer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// Each wrong value is told of in the condition and in an event, with the key, the
// value and what is allowed; no Secret is made; and the right value works.
func TestBadInput(t *testing.T) {
	r := sharedSigner(t)
	for _, c := range []struct {
		name, key, value string
		says             string
	}{
		{"long duration", api.AnnotationDuration, "99999h", "must be between 1h and 2160h"},
		{"a path for a Secret", api.AnnotationSecretName, "../web", "not a valid Secret name"},
		{"permitted to other namespaces", api.AnnotationExtraDNSNames, "a.apps.example.com", "not permitted: must be below"},
		{"ClusterIPs, not permitted", api.AnnotationClusterIPs, "true", "the signer was started without --permit-cluster-ips"},
		{"too long to repeat", api.AnnotationDuration, strings.Repeat("€", 5000), `€…": more than 253 bytes: must be at most 64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			makeService(t, ns, "web", c.key, c.value)
			condition := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
			assert.Contains(t, condition.Message, c.key+`: "`)
			if len(c.value) < 80 {
				assert.Contains(t, condition.Message, fmt.Sprintf("%q", c.value))
			}
			assert.Contains(t, condition.Message, c.says)
			waitEvent(t, ns, "web", "Warning InvalidAnnotation: "+condition.Message)
			secrets, err := admin.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Empty(t, secrets.Items)

			right := map[string]any{c.key: nil, api.AnnotationSecretName: "web-tls"}
			annotate(t, ns, "web", right)
			r.waitGood(t, ns, "web", "web-tls")
		})
	}
}

// A renewal that fails for a mistake takes nothing away.
func TestAMistakeInALiveServiceKeepsItsCertificate(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationKeyAlgorithm, "ED25519")
	first := r.waitGood(t, ns, "web", "web-tls")
	annotate(t, ns, "web", map[string]any{api.AnnotationDuration: "abc"})
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
	assert.Contains(t, c.Message, `; the certificate in Secret "web-tls" is kept, and renewed without changes`)
	waitRest(t, ns)
	patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSCertKey: ""}})
	harness.Eventually(t, func() error {
		second, err := whatIsServed(t.Context(), ns, "web-tls")
		if err == nil && second.fingerprint() == first.fingerprint() {
			err = fmt.Errorf("still the first")
		}
		return err
	})
	annotate(t, ns, "web", map[string]any{api.AnnotationDuration: nil})
	r.waitGood(t, ns, "web", "web-tls", first.fingerprint())
}

// Secrets, Services and the namespace itself go in any order.
func TestNamespaceBeingDeleted(t *testing.T) {
	r := sharedSigner(t)
	both := []string{newNamespace(t), newNamespace(t)}
	for round, ns := range both {
		for i := range 10 {
			makeService(t, ns, fmt.Sprintf("web-%d", i))
		}
		if round == 0 { // or in the midst of it
			r.waitGood(t, ns, "web-9", "web-9-tls")
		}
		require.NoError(t, admin.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	}
	for _, ns := range both {
		harness.Eventually(t, func() error {
			_, err := admin.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("namespace is there (%w)", err)
		})
		assert.Empty(t, linesWith(linesWith(r.log.String(), ns), "level=ERROR"))
	}
}

// A Secret that goes before the signer has heard that its namespace goes too.
// Nothing is to be done about it, and nothing is wrong.
func TestNamespaceBeingDeletedUnheard(t *testing.T) {
	pauseCollector(t)
	d, ns := newDeployment(t), newNamespace(t)
	count := requests{of: ns, late: "/api/v1/namespaces", by: map[string]int{}}
	r := startHere(t, d, options{wrap: count.wrap})
	makeService(t, ns, "web")
	r.waitGood(t, ns, "web", "web-tls")
	require.NoError(t, admin.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	count.take()
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
	harness.Eventually(t, func() error {
		if by := count.take(); by["POST secrets"] == 0 {
			return fmt.Errorf("not tried yet: %v", by)
		}
		return nil
	})
	waitRest(t, ns)
	require.NoError(t, r.stop())
	require.Empty(t, linesWith(r.log.String(), "level=ERROR"))
	svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, metav1.ConditionTrue, api.Condition(svc, api.ConditionReady).Status)
}

func TestQuotaForbidsTheSecret(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	setQuota(t, ns, "0")
	makeService(t, ns, "web")
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "WriteRefused")
	assert.Contains(t, c.Message, `secrets "web-tls" is forbidden: exceeded quota: few`)
	waitEvent(t, ns, "web", "Warning WriteRefused: ")
	setQuota(t, ns, "2") // one that the signer makes at once, and the probe's
	r.waitGood(t, ns, "web", "web-tls")
}

// setQuota sets the quota of a namespace, and waits until it is in force: admission goes
// by the status, which kube-controller-manager writes.
func setQuota(t *testing.T, ns, secrets string) {
	hard := corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse(secrets)}
	quotas := admin.CoreV1().ResourceQuotas(ns)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	patch := fmt.Sprintf(`{"spec": {"hard": {"secrets": %q}}}`, secrets)
	_, err = quotas.Patch(t.Context(), "few", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	// The admission plugin reads quotas from a cache of its own.
	harness.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(ns).Create(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if forbidden := apierrors.IsForbidden(err); forbidden != (secrets == "0") {
			return fmt.Errorf("quota is not in force: %w", err)
		}
		return nil
	})
}
