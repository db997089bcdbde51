package trust

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// statusNames waits until the trust status counts one refusing target and names
// it with the reason, and returns that line.
func statusNames(t *testing.T, target, reason string) {
	t.Helper()
	eventually(t, func() error {
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
	assert.Contains(t, event(t, ns, trust.EventRefused, api.BundleName), "immutable")
	r.shows(t, "servingcert_trust_targets", "kind=NamespaceConfigMap state=refuses", 1)
	assert.Zero(t, r.requests.count("/"+ns+"/configmaps"), "the object says so itself: no need to try")

	remove(t, cm)
	holds(t, ns, bundle)
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: "2"})
}

// A policy that forbids the write in one namespace, and is taken away: no event
// of the target tells of either.
func TestAdmissionRefuses(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-bundles"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"bundles": "refused"}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no bundles here"}},
		},
	}
	create(t, policy)
	create(t, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "no-bundles"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "no-bundles", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "strict-", Labels: map[string]string{"bundles": "refused"}}}
	create(t, namespace)
	eventually(t, func() error { // the policy works
		err := admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "probe"}}, client.DryRunAll)
		if err == nil {
			return fmt.Errorf("the policy does not refuse yet")
		}
		return nil
	})
	r := startRotator(t)
	change(t, namespace, func(ns *corev1.Namespace) { ns.Labels[api.LabelInject] = api.InjectEnabled })

	statusNames(t, "NamespaceConfigMap "+namespace.Name+"/"+api.BundleName, "Invalid")
	assert.Contains(t, event(t, namespace.Name, trust.EventRefused, api.BundleName), "no bundles here")
	passed(t, bundle) // the others go on
	eventually(t, func() error {
		if n := r.series(t, "servingcert_trust_failures_total")["kind=NamespaceConfigMap reason=Invalid"]; n < 4 {
			return fmt.Errorf("tried %v times", n)
		}
		return nil
	})

	remove(t, policy)
	holds(t, namespace.Name, bundle)
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: "2"})
	told := events(t, namespace.Name)
	assert.Len(t, told, 1)
	assert.NotContains(t, told[0], "(repeated)", "one event, however often it was tried")
}

// Rights that are missing are tried again within the longest backoff.
func TestRBACRefuses(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "servingcert-rotator"}}
	rules := read(t, role).Rules
	restore := func() { change(t, role, func(r *rbacv1.ClusterRole) { r.Rules = rules }) }
	t.Cleanup(restore)
	change(t, role, func(r *rbacv1.ClusterRole) {
		for i := range r.Rules {
			if r.Rules[i].APIGroups[0] == "admissionregistration.k8s.io" {
				r.Rules[i].Verbs = []string{"get", "list", "watch"}
			}
		}
	})
	create(t, mutating("forbidden", byService("a")))

	statusNames(t, "MutatingWebhookConfiguration forbidden", "Forbidden")
	assert.Contains(t, event(t, "default", trust.EventRefused, "forbidden"), "cannot patch")
	passed(t, bundle)
	eventually(t, func() error {
		if n := r.series(t, "servingcert_trust_failures_total")["kind=MutatingWebhookConfiguration reason=Forbidden"]; n < 6 {
			return fmt.Errorf("tried %v times", n)
		}
		return nil
	})

	restore()
	start := time.Now()
	caBundles(t, "forbidden", bundle)
	assert.Less(t, time.Since(start), 2*backoff)
	status(t, map[string]string{api.TrustRefusing: "0", api.TrustHolding: "2"})
}

// Many that refuse fill neither the status nor the queue.
func TestManyRefuse(t *testing.T) {
	const many = trust.MaxListed + 5
	bundle := newBundle(t)
	yes := true
	for range many {
		cm := bundleConfigMap(newNamespace(t))
		cm.Immutable = &yes
		create(t, cm)
	}
	setSource(t, bundle)
	startRotator(t)
	passed(t, bundle)
	got := status(t, map[string]string{api.TrustRefusing: fmt.Sprint(many), api.TrustHolding: "1", api.TrustTargets: fmt.Sprint(many + 1)})
	lines := strings.Split(got[api.TrustNotHolding], "\n")
	assert.Len(t, lines, trust.MaxListed+1)
	assert.Equal(t, "and 5 more", lines[trust.MaxListed])
}
