package trust

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/trust"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// withoutRights takes verbs on a resource from the rotator until the returned
// function or the end of the test gives them back.
func withoutRights(t *testing.T, resource string, verbs ...string) (restore func()) {
	t.Helper()
	rightsBack(t)
	var restores []func()
	for _, name := range []string{"servingcert-trust", webhooksRole} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
		rules := read(t, role).DeepCopy().Rules
		restores = append(restores, func() { harness.Change(t, admin, role, func(r *rbacv1.ClusterRole) { r.Rules = rules }) })
		t.Cleanup(restores[len(restores)-1])
		harness.Change(t, admin, role, func(r *rbacv1.ClusterRole) { r.Rules = withoutVerbs(r.DeepCopy().Rules, resource, verbs) })
	}
	return func() {
		for _, restore := range restores {
			restore()
		}
	}
}

// rightsBack has the test end when the API server goes by what cleanups registered later restore.
func rightsBack(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, harness.RightsInForce(context.WithoutCancel(t.Context()), admin)) })
}

// withoutVerbs returns the rules without the verbs on the resource.
func withoutVerbs(rules []rbacv1.PolicyRule, resource string, verbs []string) []rbacv1.PolicyRule {
	var kept []rbacv1.PolicyRule
	for _, rule := range rules {
		if i := slices.Index(rule.Resources, resource); i >= 0 {
			taken := *rule.DeepCopy()
			taken.Resources = []string{resource}
			taken.Verbs = slices.DeleteFunc(taken.Verbs, func(v string) bool { return slices.Contains(verbs, v) })
			rule.Resources = slices.Delete(rule.Resources, i, i+1)
			kept = append(kept, taken)
		}
		kept = append(kept, rule)
	}
	return slices.DeleteFunc(kept, func(rule rbacv1.PolicyRule) bool { return len(rule.Resources) == 0 || len(rule.Verbs) == 0 })
}

// A kind that may not be listed or watched is named, counts as one target that
// refuses, and keeps no other waiting. As soon as it may, it is kept.
func TestKindWithoutRights(t *testing.T) {
	crd := kindCases(api.AnnotationInjectCABundle)[4]
	require.Equal(t, "CustomResourceDefinition", crd.name)
	for _, verb := range []string{"list", "watch"} {
		t.Run(verb, func(t *testing.T) {
			first, second := newBundle(t), newBundle(t)
			setSource(t, first)
			crd.apply(t)
			restore := withoutRights(t, crd.resource, verb)
			r := startRotator(t)
			create(t, mutating("others", byService("a")))
			caBundles(t, "others", first)
			passed(t, first)
			refused := map[string]string{api.TrustBundleHash: hash(t, first), api.TrustTargets: "3", api.TrustHolding: "2", api.TrustPending: "0", api.TrustRefusing: "1"}
			got := status(t, refused)
			assert.Contains(t, got[api.TrustNotHolding], "CustomResourceDefinition (all): Forbidden: "+verb)
			r.shows(t, "servingcert_trust_kinds", "kind=CustomResourceDefinition state=refused", 1)
			r.shows(t, "servingcert_trust_refusing", "kind=CustomResourceDefinition reason=Forbidden", 1)
			event(t, system, trustcontroller.EventKindRefused, api.TrustStatusName, "leave the kind out of --targets")
			assert.Empty(t, crd.get(read(t, crd.object(t))))

			restore()
			crd.has(t, first)
			status(t, map[string]string{api.TrustTargets: "3", api.TrustHolding: "3", api.TrustRefusing: "0"})
			r.shows(t, "servingcert_trust_kinds", "kind=CustomResourceDefinition state=watched", 1)

			restore = withoutRights(t, crd.resource, verb)
			status(t, map[string]string{api.TrustTargets: "4", api.TrustHolding: "3", api.TrustRefusing: "1"})
			setSource(t, second)
			caBundles(t, "others", second)
			restore()
			crd.has(t, second)
			status(t, map[string]string{api.TrustTargets: "3", api.TrustHolding: "3", api.TrustRefusing: "0"})
		})
	}
}

// Who wants fewer kinds needs fewer rights: of ConfigMaps, those of the one name.
func TestFewerTargetsNeedFewerRights(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "servingcert-trust"}}
	rules := read(t, role).DeepCopy().Rules
	rightsBack(t)
	t.Cleanup(func() { harness.Change(t, admin, role, func(r *rbacv1.ClusterRole) { r.Rules = rules }) })
	harness.Change(t, admin, role, func(r *rbacv1.ClusterRole) {
		r.Rules = []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{api.BundleName}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
			{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, Verbs: []string{"get", "list", "watch", "patch"}},
			{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		}
	})
	bundle := newBundle(t)
	setSource(t, bundle)
	ns := newNamespace(t)
	r := startRotator(t, func(c *trustcontroller.Config) {
		c.Targets = []string{"NamespaceConfigMap", "MutatingWebhookConfiguration"}
	})
	create(t, mutating("fewer", byService("a")))
	caBundles(t, "fewer", bundle)
	holds(t, ns, bundle)
	harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) { cm.Data[api.BundleKey] = "garbage" })
	holds(t, ns, bundle)
	status(t, map[string]string{api.TrustTargets: "2", api.TrustHolding: "2", api.TrustRefusing: "0"})
	harness.Change(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(ns *corev1.Namespace) { ns.Labels = nil })
	harness.Eventually(t, func() error { return disowned(t, bundleConfigMap(ns)) })
	assert.Empty(t, r.series(t, "servingcert_trust_failures_total"))
	assert.Len(t, r.series(t, "servingcert_trust_kinds"), 2*len(trust.KindStates()))
}

// What the API server does not have is no target, and no failure.
func TestAbsentKind(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	passed(t, bundle)
	status(t, map[string]string{api.TrustTargets: "1", api.TrustHolding: "1", api.TrustRefusing: "0", api.TrustNotHolding: ""})
	r.shows(t, "servingcert_trust_kinds", "kind=ClusterTrustBundle state=absent", 1)
	r.shows(t, "servingcert_trust_kinds", "kind=ClusterTrustBundle state=refused", 0)
	for _, kind := range trustcontroller.DefaultConfig().Targets {
		if kind != "ClusterTrustBundle" {
			r.shows(t, "servingcert_trust_kinds", "kind="+kind+" state=watched", 1)
		}
	}
	assert.Empty(t, r.series(t, "servingcert_trust_failures_total"))
}

// withTrustBundles runs the test on a control plane that has ClusterTrustBundles.
func withTrustBundles(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	other, err := controlplane.Start(ctx, controlplane.Options{Features: []controlplane.Feature{controlplane.ClusterTrustBundles}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Stop()) })
	harness.Needs(t, other.AdminConfig(), controlplane.ClusterTrustBundles)
	found, err := discovery.NewDiscoveryClientForConfig(other.AdminConfig())
	require.NoError(t, err)
	trustBundleVersion, err = facts.TrustBundles(ctx, found.RESTClient())
	require.NoError(t, err)
	shared, sharedAccount, sharedAdmin := cluster, account, admin
	t.Cleanup(func() {
		cluster, account, admin = shared, sharedAccount, sharedAdmin
	})
	require.NoError(t, prepare(ctx, &harness.Suite{Plane: other}))
}

// trustBundleVersion is the one that the API server serves.
var trustBundleVersion string

func trustBundle() *unstructured.Unstructured {
	b := &unstructured.Unstructured{}
	b.SetAPIVersion(trustBundleVersion)
	b.SetKind("ClusterTrustBundle")
	b.SetName(api.TrustBundleName)
	return b
}

func TestClusterTrustBundle(t *testing.T) {
	withTrustBundles(t)
	first, second, foreign := newBundle(t), newBundle(t), newBundle(t)
	has := func(bundle string) {
		t.Helper()
		harness.Eventually(t, func() error {
			got := trustBundle()
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
				return err
			}
			spec := got.Object["spec"].(map[string]any)
			if spec["trustBundle"] != bundle || spec["signerName"] != "servingcert.dev/serving" {
				return fmt.Errorf("of %s: %.60q", spec["signerName"], spec["trustBundle"])
			}
			return nil
		})
	}
	r := startRotator(t)
	got := status(t, map[string]string{api.TrustTargets: "1", api.TrustPending: "1"})
	assert.Contains(t, got[api.TrustNotHolding], "ClusterTrustBundle servingcert.dev:serving:ca: NoSource")
	setSource(t, first)
	has(first)
	all := map[string]string{api.TrustBundleHash: hash(t, first), api.TrustTargets: "1", api.TrustHolding: "1", api.TrustNotHolding: ""}
	status(t, all)
	r.shows(t, "servingcert_trust_targets", "kind=ClusterTrustBundle state=holds", 1)
	r.shows(t, "servingcert_trust_writes_total", "kind=ClusterTrustBundle why=create", 1)

	for _, damage := range []string{foreign, first + foreign} { // garbage is refused by the API server
		harness.Change(t, admin, trustBundle(), func(b *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(b.Object, damage, "spec", "trustBundle"))
		})
		has(first)
	}
	remove(t, trustBundle())
	has(first)
	event(t, "default", trustcontroller.EventRestored, api.TrustBundleName)
	setSource(t, second)
	has(second)
	passed(t, second)

	t.Run("at rest nothing is written", func(t *testing.T) {
		again := startRotator(t)
		again.shows(t, "servingcert_trust_targets", "kind=ClusterTrustBundle state=holds", 1)
		again.settled(t)
		assert.Empty(t, again.requests.since(0))
	})
	t.Run("no right to attest", func(t *testing.T) {
		restore := withoutRights(t, "signers", "attest")
		harness.Eventually(t, func() error { return attestIsRefused(t) })
		setSource(t, first)
		passed(t, first)
		refused := status(t, map[string]string{api.TrustBundleHash: hash(t, first), api.TrustRefusing: "1", api.TrustPending: "0"})
		assert.Contains(t, refused[api.TrustNotHolding], "ClusterTrustBundle servingcert.dev:serving:ca: Forbidden: ")
		assert.Contains(t, event(t, "default", trustcontroller.EventRefused, api.TrustBundleName), "attest")
		r.shows(t, "servingcert_trust_refusing", "kind=ClusterTrustBundle reason=Forbidden", 1)
		has(second)
		restore()
		has(first)
		status(t, map[string]string{api.TrustRefusing: "0", api.TrustPending: "0"})
	})
}

// attestIsRefused is nil once the API server knows that the rotator may not attest.
func attestIsRefused(t *testing.T) error {
	t.Helper()
	rotators, err := client.New(account, client.Options{Scheme: admin.Scheme()})
	require.NoError(t, err)
	b := read(t, trustBundle())
	patch := client.RawPatch("application/merge-patch+json", []byte(fmt.Sprintf(`{"spec":{"trustBundle":%q}}`, newBundle(t))))
	if err := rotators.Patch(t.Context(), b, patch, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "attest") {
		return fmt.Errorf("it may still attest: %w", err)
	}
	return nil
}
