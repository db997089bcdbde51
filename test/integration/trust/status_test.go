package trust

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func trustStatus() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.TrustStatusName}}
}

// A new bundle reaches every target with one write each, the status with a few,
// and then nothing is written any more: not by this process, and not by the next.
func TestRotationReachesAll(t *testing.T) {
	const namespaces, webhooks = 40, 5
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	r := startRotator(t)
	var all []string
	for range namespaces {
		all = append(all, newNamespace(t))
	}
	for i := range webhooks {
		create(t, mutating(fmt.Sprintf("all-%d", i), byService("a"), byService("b")))
	}
	everyone := fmt.Sprint(namespaces + webhooks)
	quiet := func(bundle string) {
		t.Helper()
		status(t, map[string]string{
			api.TrustBundleHash: hash(t, bundle), api.TrustTargets: everyone, api.TrustHolding: everyone,
			api.TrustPending: "0", api.TrustRefusing: "0", api.TrustNotHolding: "",
		})
		for i := range webhooks {
			harness.Eventually(t, func() error { return disowned(t, mutating(fmt.Sprintf("all-%d", i))) })
		}
	}
	quiet(first)
	before, statusBefore := len(r.requests.since(0)), r.requests.count(api.TrustStatusName)

	setSource(t, second)
	quiet(second)
	for _, ns := range all {
		holds(t, ns, second)
		assert.Equal(t, 2, r.requests.count("/"+ns+"/configmaps"), "one write for each bundle")
	}
	for i := range webhooks {
		caBundles(t, fmt.Sprintf("all-%d", i), second, second)
		assert.Equal(t, 4, r.requests.count(fmt.Sprintf("/all-%d", i)), "a write and a release for each bundle")
	}
	statusWrites := r.requests.count(api.TrustStatusName) - statusBefore
	assert.Less(t, statusWrites, namespaces/2, "coalesced")
	assert.Len(t, r.requests.since(before), namespaces+2*webhooks+statusWrites, "nothing else was written")
	r.shows(t, "servingcert_trust_targets", "kind=NamespaceConfigMap state=holds", namespaces)
	r.shows(t, "servingcert_trust_writes_total", "kind=NamespaceConfigMap why=create", namespaces)
	r.shows(t, "servingcert_trust_writes_total", "kind=NamespaceConfigMap why=update", namespaces)
	r.shows(t, "servingcert_trust_writes_total", "kind=NamespaceConfigMap why=restore", 0)

	t.Run("at rest nothing is written", func(t *testing.T) {
		again := startRotator(t)
		again.shows(t, "servingcert_trust_targets", "kind=NamespaceConfigMap state=holds", namespaces)
		again.shows(t, "servingcert_trust_targets", "kind=MutatingWebhookConfiguration state=holds", webhooks)
		for _, change := range []map[string]string{{"phase": "Soaking"}, {"phase": "Stable"}} { // the signer's other news
			cm := read(t, sourceConfigMap())
			cm.Data["phase"] = change["phase"]
			require.NoError(t, admin.Update(t.Context(), cm))
		}
		again.settled(t)
		assert.Empty(t, again.requests.since(0))
	})
}

func TestStatusIsRestored(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	startRotator(t)
	newNamespace(t)
	want := map[string]string{api.TrustBundleHash: hash(t, bundle), api.TrustHolding: "1", api.TrustTargets: "1"}
	status(t, want)
	harness.Change(t, admin, trustStatus(), func(cm *corev1.ConfigMap) { cm.Data[api.TrustHolding] = "99" })
	status(t, want)
	harness.Change(t, admin, trustStatus(), func(cm *corev1.ConfigMap) { cm.Data[api.TrustProblem] = "none of ours" })
	status(t, map[string]string{api.TrustProblem: ""})
	remove(t, trustStatus())
	status(t, want)
}

// What was not looked at yet, or not since it changed, does not count as holding.
func TestStatusFollowsTargets(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	startRotator(t)
	ns := newNamespace(t)
	config := mutating("follows", byService("a"))
	create(t, config)
	status(t, map[string]string{api.TrustTargets: "2", api.TrustHolding: "2"})
	harness.Change(t, admin, config, func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Annotations = nil })
	status(t, map[string]string{api.TrustTargets: "1", api.TrustHolding: "1"})
	remove(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	status(t, map[string]string{api.TrustTargets: "0", api.TrustHolding: "0"})
}

// immutable is for newConfigMap.
func immutable(cm *corev1.ConfigMap) { yes := true; cm.Immutable = &yes }

// Who requests the bundle only after it was taken up holds up no new CA, nor who
// withdraws the request and makes it again. One that was there, and refuses, does so
// for a time, and its namespace is named.
func TestLateRequests(t *testing.T) {
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	r := startRotator(t)
	cm := newConfigMap(t, annotation(), nil)
	dataIs(t, cm, map[string]string{api.BundleKey: first})
	harness.Change(t, admin, cm, immutable)
	config := mutating("late", byService("a"))
	create(t, config)
	r.settled(t)
	before := status(t, map[string]string{api.TrustHolding: "2", api.TrustTargets: "2"})

	setSource(t, second)
	took := status(t, map[string]string{api.TrustHolding: "1", api.TrustRefusing: "1", api.TrustLate: "0", api.TrustGrace: "1", api.TrustNamespaces: cm.Namespace})
	assert.GreaterOrEqual(t, took[api.TrustSince], before[api.TrustSince])
	r.shows(t, "servingcert_trust_grace", "namespace="+cm.Namespace, 1)
	newConfigMap(t, annotation(), map[string]string{api.BundleKey: first}, immutable)
	newConfigMap(t, annotation(), map[string]string{api.BundleKey: first}, immutable)
	status(t, map[string]string{api.TrustHolding: "1", api.TrustRefusing: "3", api.TrustLate: "2", api.TrustGrace: "1", api.TrustSince: took[api.TrustSince]})

	harness.Change(t, admin, cm, func(cm *corev1.ConfigMap) { cm.Annotations = nil })
	status(t, map[string]string{api.TrustRefusing: "2", api.TrustLate: "2", api.TrustGrace: "0"})
	harness.Change(t, admin, cm, func(cm *corev1.ConfigMap) { cm.Annotations = annotation() })
	status(t, map[string]string{api.TrustRefusing: "3", api.TrustLate: "3", api.TrustGrace: "0", api.TrustNamespaces: ""})
	assert.Empty(t, r.series(t, "servingcert_trust_grace"))
	passed(t, second)
}
