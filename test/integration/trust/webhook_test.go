package trust

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// annotation asks for the bundle.
func annotation() map[string]string {
	return map[string]string{api.AnnotationInjectCABundle: "true"}
}

// webhookEntry is a webhook that is never called: no namespace has its label.
func webhookEntry(name string, config admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.MutatingWebhook {
	none, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	return admissionregistrationv1.MutatingWebhook{
		Name:                    name + ".example.com",
		ClientConfig:            config,
		SideEffects:             &none,
		FailurePolicy:           &ignore,
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"no-such": "label"}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
	}
}

func byService(name string) admissionregistrationv1.MutatingWebhook {
	return webhookEntry(name, admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "shop", Name: name}})
}

func byURL(name string, caBundle []byte) admissionregistrationv1.MutatingWebhook {
	url := "https://" + name + ".example.com/"
	return webhookEntry(name, admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle})
}

func mutating(name string, entries ...admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotation()},
		Webhooks:   entries,
	}
}

// caBundles waits until the entries' caBundles are as wanted, in order.
func caBundles(t *testing.T, name string, want ...string) {
	t.Helper()
	harness.Eventually(t, func() error {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, config); err != nil {
			return err
		}
		if len(config.Webhooks) != len(want) {
			return fmt.Errorf("%d webhooks, want %d", len(config.Webhooks), len(want))
		}
		for i, w := range config.Webhooks {
			if got := string(w.ClientConfig.CABundle); got != want[i] {
				return fmt.Errorf("webhook %s has %.40q, want %.40q", w.Name, got, want[i])
			}
		}
		return nil
	})
}

func TestWebhookGetsBundle(t *testing.T) {
	bundle := newBundle(t)
	theirs := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)

	create(t, mutating("mixed", byService("a"), byURL("b", []byte(theirs)), byURL("c", nil), byService("d")))
	caBundles(t, "mixed", bundle, theirs, "", bundle)

	plain := mutating("plain", byService("a"))
	plain.Annotations = map[string]string{api.AnnotationInjectCABundle: "false"}
	create(t, plain)
	urls := mutating("urls", byURL("b", nil))
	create(t, urls)
	create(t, mutating("empty"))
	r.shows(t, "servingcert_trust_targets", "kind=MutatingWebhookConfiguration state=unsuitable", 2)
	caBundles(t, "plain", "")
	caBundles(t, "urls", "")
	harness.Change(t, admin, plain, func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Annotations = annotation() })
	caBundles(t, "plain", bundle)
	harness.Change(t, admin, urls, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
		c.Webhooks = append(c.Webhooks, byService("new"))
	})
	caBundles(t, "urls", "", bundle)
}

const manifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: gitops
  annotations: {servingcert.dev/inject-ca-bundle: "true"}
webhooks:
- name: a.example.com
  clientConfig: {service: {namespace: shop, name: a, path: /v1}}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  namespaceSelector: {matchLabels: {no-such: label}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`

func fromYAML(t *testing.T, s string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(s), &obj.Object))
	return obj
}

// Whoever applies a manifest without caBundle again and again is not fought with:
// the field stays, and the rotator has nothing to write.
func TestGitOpsServerSide(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	apply := func(s string, force bool) error {
		opts := []client.ApplyOption{client.FieldOwner("gitops")}
		if force {
			opts = append(opts, client.ForceOwnership)
		}
		return admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(fromYAML(t, s)), opts...)
	}
	require.NoError(t, apply(manifest, false))
	t.Cleanup(func() { remove(t, mutating("gitops")) })
	caBundles(t, "gitops", bundle)
	harness.Eventually(t, func() error { return disowned(t, mutating("gitops")) })
	writes := r.requests.count("webhookconfigurations")

	for i := range 3 {
		require.NoError(t, apply(strings.ReplaceAll(manifest, "path: /v1", fmt.Sprintf("path: /v%d", i+2)), false), "no conflict")
		caBundles(t, "gitops", bundle)
	}
	passed(t, bundle)
	assert.Equal(t, writes, r.requests.count("webhookconfigurations"), "the field stayed, so there was nothing to write")

	t.Run("a manifest that had the field drops it", func(t *testing.T) {
		with := strings.ReplaceAll(manifest, "path: /v1}}", "path: /v1}, caBundle: Z2FyYmFnZQ==}")
		require.NoError(t, apply(with, true))
		caBundles(t, "gitops", bundle)
		require.NoError(t, apply(manifest, false))
		caBundles(t, "gitops", bundle)
	})
}

// disowned is nil if the rotator owns no field of the object.
func disowned(t *testing.T, obj client.Object) error {
	t.Helper()
	for _, e := range read(t, obj).GetManagedFields() {
		if e.Manager == trust.FieldManager {
			return fmt.Errorf("%s still owns %s", e.Manager, e.FieldsV1)
		}
	}
	return nil
}
