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
		{"no duration", api.AnnotationDuration, "abc", "not a valid duration: must be a Go duration between 1h and 2160h, such as 720h"},
		{"negative duration", api.AnnotationDuration, "-1h", "must be between 1h and 2160h"},
		{"short duration", api.AnnotationDuration, "1m", "must be between 1h and 2160h"},
		{"long duration", api.AnnotationDuration, "99999h", "must be between 1h and 2160h"},
		{"no whole seconds", api.AnnotationDuration, "90m1ms", "must be in whole seconds"},
		{"algorithm that is not permitted", api.AnnotationKeyAlgorithm, "RSA4096", "not permitted: the signer was started without --permit-rsa4096"},
		{"unknown algorithm", api.AnnotationKeyAlgorithm, "RSA1024", "must be one of ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA2048, RSA3072, RSA4096"},
		{"no name of a Secret", api.AnnotationSecretName, "Web_TLS", "not a valid Secret name: a lowercase RFC 1123 subdomain"},
		{"a path for a Secret", api.AnnotationSecretName, "../web", "not a valid Secret name"},
		{"empty name of a Secret", api.AnnotationSecretName, "", "not a valid Secret name"},
		{"a name of others", api.AnnotationExtraDNSNames, "example.com", "not permitted: must be below web."},
		{"another Service's name", api.AnnotationExtraDNSNames, "db.shop.svc", "not permitted"},
		{"its name in a longer one", api.AnnotationExtraDNSNames, "web.shop.svc.example.com", "not permitted"},
		{"permitted to other namespaces", api.AnnotationExtraDNSNames, "a.apps.example.com", "not permitted: must be below"},
		{"wildcard in the middle", api.AnnotationExtraDNSNames, "a.*.web.shop.svc", "a wildcard must be the whole first label"},
		{"wildcard in a label", api.AnnotationExtraDNSNames, "a*.web.shop.svc", "a wildcard must be the whole first label"},
		{"wildcard for all Services", api.AnnotationExtraDNSNames, "*.shop.svc", "not permitted"},
		{"an IP address", api.AnnotationExtraDNSNames, "10.0.0.1", "is an IP address: must be a DNS name"},
		{"an IPv6 address", api.AnnotationExtraDNSNames, "[::1]", "is an IP address: must be a DNS name"},
		{"no name between commas", api.AnnotationExtraDNSNames, "", "contains an empty name"},
		{"ClusterIPs, not permitted", api.AnnotationClusterIPs, "true", "the signer was started without --permit-cluster-ips"},
		{"no bool", api.AnnotationClusterIPs, "yes", `must be "true" or "false"`},
		{"no bool for one file", api.AnnotationCombinedPEM, "yes", `must be "true" or "false"`},
		{"no time", api.AnnotationRenewAfter, "tomorrow", "not a valid time: must be RFC 3339"},
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

func TestExternalName(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	svc := newService("web")
	svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	_, err := admin.CoreV1().Services(ns).Create(t.Context(), svc, metav1.CreateOptions{})
	require.NoError(t, err)
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
	assert.Contains(t, c.Message, `spec.type: "ExternalName": refers to a host outside the cluster`)
	_, err = admin.CoreV1().Services(ns).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"type":"ClusterIP","externalName":null,"ports":[{"port":443}]}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	r.waitGood(t, ns, "web", "web-tls")
}

func TestPermittedSuffix(t *testing.T) {
	r := sharedSigner(t)
	ns := "ext-" + newName(t)
	makeNamespace(t, ns, optedIn)
	makeService(t, ns, "web", api.AnnotationExtraDNSNames, "web.apps.example.com, *.apps.example.com")
	have := r.waitGood(t, ns, "web", "web-tls")
	assert.Subset(t, have.leaf.DNSNames, []string{"web.apps.example.com", "*.apps.example.com"})
	require.NoError(t, r.verify(t.Context(), have, "any.apps.example.com"))
}

// A renewal that fails for a mistake takes nothing away.
func TestAMistakeInALiveServiceKeepsItsCertificate(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationKeyAlgorithm, "ED25519")
	first := r.waitGood(t, ns, "web", "web-tls")
	annotate(t, ns, "web", map[string]any{api.AnnotationDuration: "abc"})
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
	assert.Contains(t, c.Message, `; the certificate in Secret "web-tls" is kept, and renewed with what it has`)
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
