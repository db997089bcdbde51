package trust

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// statusNames waits until the trust status counts one refusing target and names
// it with the reason, and returns that line.
func statusNames(t *testing.T, target, reason string) {
	t.Helper()
	harness.Eventually(t, func() error {
		got := status(t, map[string]string{api.TrustRefusing: "1", api.TrustPending: "0"})
		if lines := got[api.TrustNotHolding]; !strings.HasPrefix(lines, target+": "+reason+": ") {
			return fmt.Errorf("not-holding is %q", lines)
		}
		return nil
	})
}

func TestImmutableConfigMap(t *testing.T) {
	bundle := newBundle(t)
	ns := newNamespace(t)
	cm := bundleConfigMap(ns)
	yes := true
	cm.Immutable, cm.Data = &yes, map[string]string{api.BundleKey: "old"}
	create(t, cm)
	setSource(t, bundle)
	r := startRotator(t)

	passed(t, bundle)
	statusNames(t, "NamespaceConfigMap "+ns+"/"+api.BundleName, "Immutable")
	assert.Contains(t, event(t, ns, trustcontroller.EventRefused, api.BundleName), "immutable")
	r.shows(t, "servingcert_trust_targets", "kind=NamespaceConfigMap state=refuses", 1)
	assert.Zero(t, r.requests.count("/"+ns+"/configmaps"), "the object says so itself: no need to try")

	remove(t, cm)
	holds(t, ns, bundle)
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: "2"})
}

// refuseConfigMaps has a policy forbid every write of a ConfigMap in a namespace,
// until the returned function or the end of the test takes it away.
func refuseConfigMaps(t *testing.T, namespace string) (lift func()) {
	t.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "no-bundles-"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "no bundles here"}},
		},
	}
	require.NoError(t, admin.Create(t.Context(), policy))
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	}
	t.Cleanup(func() { removeAndWait[client.Object](t, binding, policy) })
	require.NoError(t, admin.Create(t.Context(), binding))
	harness.Eventually(t, func() error {
		err := admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}, client.DryRunAll)
		if err == nil {
			return fmt.Errorf("the policy does not refuse yet")
		}
		return nil
	})
	return func() { remove(t, policy) }
}

// A policy that forbids the write in one namespace, and is taken away: no event
// of the target reports either.
func TestAdmissionRefuses(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "strict-", Labels: map[string]string{}}}
	create(t, namespace)
	lift := refuseConfigMaps(t, namespace.Name)
	r := startRotator(t)
	harness.Change(t, admin, namespace, func(ns *corev1.Namespace) { ns.Labels[api.LabelInject] = api.InjectEnabled })
	target := bundleConfigMap(namespace.Name)
	statusNames(t, "NamespaceConfigMap "+target.Namespace+"/"+target.Name, "Invalid")
	assert.Contains(t, event(t, target.Namespace, trustcontroller.EventRefused, target.Name), "no bundles here")
	r.shows(t, "servingcert_trust_refusing", "kind=NamespaceConfigMap reason=Invalid", 1)
	passed(t, bundle) // the others go on
	harness.Eventually(t, func() error {
		if n := r.series(t, "servingcert_trust_failures_total")["kind=NamespaceConfigMap reason=Invalid"]; n < 4 {
			return fmt.Errorf("tried %v times", n)
		}
		return nil
	})

	lift()
	holds(t, namespace.Name, bundle)
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: "2"})
	sent := events(t, namespace.Name)
	assert.Len(t, sent, 1)
	assert.NotContains(t, sent[0], "(repeated)", "one event, however often it was tried")
}

// Rights that are missing are named, and tried again within the longest backoff, of each kind,
// while the others go on.
func TestRBACRefuses(t *testing.T) {
	kinds := slices.DeleteFunc(kindCases(api.AnnotationInjectCABundle), func(kind kindCase) bool {
		return kind.name == "ConfigMap" // shares its right with the bundle of every namespace
	})
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t, func(c *trustcontroller.Config) { c.MaxBackoff = 200 * time.Millisecond })
	var restores []func()
	for _, kind := range kinds {
		restores = append(restores, withoutRights(t, kind.resource, "patch"))
	}
	for _, kind := range kinds {
		kind.apply(t)
	}
	for _, kind := range kinds {
		name := kind.object(t).GetName()
		harness.Eventually(t, func() error {
			got := status(t, map[string]string{api.TrustRefusing: fmt.Sprint(len(kinds)), api.TrustPending: "0"})
			if lines := "\n" + got[api.TrustNotHolding]; !strings.Contains(lines, "\n"+kind.name+" "+name+": Forbidden: ") {
				return fmt.Errorf("not-holding is %q", lines)
			}
			return nil
		})
		words := "cannot patch"
		if strings.HasSuffix(kind.name, "WebhookConfiguration") {
			words = "let the rotator patch" // the advice stands before the API server's words
		}
		assert.Contains(t, event(t, "default", trustcontroller.EventRefused, name), words)
		r.shows(t, "servingcert_trust_refusing", "kind="+kind.name+" reason=Forbidden", 1)
		r.shows(t, "servingcert_trust_targets", "kind="+kind.name+" state=refuses", 1)
		harness.Eventually(t, func() error { // with waits that double without end the eleventh would come after 100 s
			if n := r.series(t, "servingcert_trust_failures_total")["kind="+kind.name+" reason=Forbidden"]; n < 11 {
				return fmt.Errorf("tried %v times", n)
			}
			return nil
		})
	}
	passed(t, bundle)

	for _, restore := range slices.Backward(restores) {
		restore()
	}
	for _, kind := range kinds {
		kind.has(t, bundle)
	}
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: fmt.Sprint(len(kinds) + 1)})
	assert.Empty(t, r.series(t, "servingcert_trust_refusing"))
}

// An annotated webhook configuration that no role names is refused, and the event
// says what to do. docs/trust.md has the role, which is applied here as it stands.
func TestWebhookConfigurationThatNoRoleNames(t *testing.T) {
	page, err := os.ReadFile("../../../docs/trust.md")
	require.NoError(t, err)
	_, manifest, found := strings.Cut(string(page), "# servingcert-trust-more-webhooks.yaml\n")
	require.True(t, found)
	manifest, _, _ = strings.Cut(manifest, "```")
	role, err := deploy.Decode([]byte(manifest))
	require.NoError(t, err)
	require.Len(t, role, 2)

	bundle := newBundle(t)
	setSource(t, bundle)
	withoutRights(t, "mutatingwebhookconfigurations", "patch")
	create(t, mutating("my-webhooks", byService("a")))
	r := startRotator(t)
	statusNames(t, "MutatingWebhookConfiguration my-webhooks", "Forbidden")
	const advice = `let the rotator patch mutatingwebhookconfigurations "my-webhooks" by a ClusterRole that names it (docs/trust.md)`
	assert.Contains(t, event(t, "default", trustcontroller.EventRefused, "my-webhooks"), "Forbidden: "+advice)
	assert.Contains(t, status(t, nil)[api.TrustNotHolding], advice)
	r.shows(t, "servingcert_trust_refusing", "kind=MutatingWebhookConfiguration reason=Forbidden", 1)

	require.NoError(t, deploy.ApplyObjects(t.Context(), admin, "test", role))
	t.Cleanup(func() { removeAndWait(t, role...) })
	caBundles(t, "my-webhooks", bundle)
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: "1"})
}

// One that someone changes back each time can be counted on by nobody.
func TestContested(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	cm := newConfigMap(t, annotation(), nil)
	ctx, stop := context.WithCancel(t.Context())
	fighting := make(chan struct{})
	t.Cleanup(func() { // if it fails on the way
		stop()
		<-fighting
	})
	go func() {
		defer close(fighting)
		for ctx.Err() == nil {
			garbage := client.RawPatch(types.MergePatchType, []byte(`{"data":{"ca.crt":"garbage"}}`))
			if err := admin.Patch(ctx, cm.DeepCopy(), garbage); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	began := time.Now()
	r := startRotator(t, func(c *trustcontroller.Config) { c.Patience = 3 * time.Second })
	statusNames(t, "ConfigMap "+cm.Namespace+"/"+cm.Name, "Contested")
	assert.Contains(t, event(t, cm.Namespace, trustcontroller.EventRefused, cm.Name), "as if something changed it back")
	r.shows(t, "servingcert_trust_refusing", "kind=ConfigMap reason=Contested", 1)
	passed(t, bundle)
	var writes float64
	for labels, n := range r.series(t, "servingcert_trust_writes_total") {
		if strings.HasPrefix(labels, "kind=ConfigMap ") {
			writes += n
		}
	}
	sent, seconds := r.requests.count("/"+cm.Namespace+"/configmaps"), int(time.Since(began)/time.Second)+1
	assert.Positive(t, writes)
	assert.LessOrEqual(t, writes, float64(seconds), "at most one a second, in %d s", seconds)
	assert.LessOrEqual(t, sent, 2*seconds, "as often, the API server refuses what comes of a cache that is behind")

	stop()
	<-fighting
	dataIs(t, cm, map[string]string{api.BundleKey: bundle})
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: "2"})
}
