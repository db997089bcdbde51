package trust

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func TestNamespaceGetsBundle(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	startRotator(t)

	early := newNamespace(t)
	holds(t, early, bundle)
	assert.Equal(t, map[string]string{api.BundleKey: bundle}, read(t, bundleConfigMap(early)).Data)

	plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}}
	create(t, plain)
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-", Labels: map[string]string{api.LabelInject: "yes"}}}
	create(t, other)
	passed(t, bundle)
	for _, ns := range []*corev1.Namespace{plain, other} {
		assert.Error(t, admin.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: api.BundleName}, &corev1.ConfigMap{}), ns.Name)
	}
	harness.Change(t, admin, plain, func(ns *corev1.Namespace) { ns.Labels = map[string]string{api.LabelInject: api.InjectEnabled} })
	holds(t, plain.Name, bundle)
}

func TestBundleIsRestored(t *testing.T) {
	bundle := newBundle(t)
	foreign := newBundle(t)
	setSource(t, bundle)
	startRotator(t)
	ns := newNamespace(t)
	holds(t, ns, bundle)

	harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) {
		cm.ManagedFields = []metav1.ManagedFieldsEntry{{}} // whoever owned it
		cm.Data[api.BundleKey] += foreign
	})
	holds(t, ns, bundle)
	t.Run("deleted", func(t *testing.T) {
		remove(t, bundleConfigMap(ns))
		holds(t, ns, bundle)
	})
	t.Run("edited by server-side apply", func(t *testing.T) {
		doc := applycorev1.ConfigMap(api.BundleName, ns).WithData(map[string]string{api.BundleKey: "theirs"})
		require.NoError(t, admin.Apply(t.Context(), doc, client.FieldOwner("someone"), client.ForceOwnership))
		holds(t, ns, bundle)
	})
	event(t, ns, "TrustBundleRestored", api.BundleName)
}

func TestLabelTakenAwayLeavesConfigMap(t *testing.T) {
	first, second := newBundle(t), newBundle(t)
	setSource(t, first)
	r := startRotator(t)
	ns := newNamespace(t)
	holds(t, ns, first)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	harness.Change(t, admin, namespace, func(ns *corev1.Namespace) { ns.Labels = nil })
	harness.Eventually(t, func() error {
		if slices.ContainsFunc(read(t, bundleConfigMap(ns)).ManagedFields, trust.IsOwnEntry) {
			return errors.New("the rotator has not released the ConfigMap")
		}
		return nil
	})
	writes := r.requests.to("/" + ns + "/")

	harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) { cm.Data[api.BundleKey] = "mine now" })
	setSource(t, second)
	passed(t, second)
	assert.Equal(t, "mine now", read(t, bundleConfigMap(ns)).Data[api.BundleKey])
	assert.Equal(t, writes, r.requests.to("/"+ns+"/"))

	harness.Change(t, admin, namespace, func(ns *corev1.Namespace) { ns.Labels = map[string]string{api.LabelInject: api.InjectEnabled} })
	holds(t, ns, second)
}

func TestNamespaceBeingDeletedIsLeftAlone(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	early, late := newNamespace(t), newNamespace(t)
	terminate := func(ns string) { // for good: nobody finishes the deletion here
		remove(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	terminate(early)
	r := startRotator(t)
	holds(t, late, bundle)
	terminate(late)
	passed(t, bundle) // the rotator knows
	remove(t, bundleConfigMap(late))
	r.settled(t)
	for ns, writes := range map[string]int{early: 0, late: 1} {
		assert.Error(t, admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: api.BundleName}, &corev1.ConfigMap{}))
		assert.Equal(t, writes, r.requests.count("/"+ns+"/configmaps"), "it was not even tried")
		assert.Empty(t, events(t, ns), "a namespace that goes away is no reason for an event")
	}
	assert.Empty(t, r.series(t, "servingcert_trust_failures_total"))
}

func TestServingcertsOwnNamespace(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	startRotator(t)
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}
	harness.Change(t, admin, own, func(ns *corev1.Namespace) { ns.Labels[api.LabelInject] = api.InjectEnabled })
	t.Cleanup(func() {
		harness.Change(t, admin, own, func(ns *corev1.Namespace) { delete(ns.Labels, api.LabelInject) })
		remove(t, bundleConfigMap(system))
	})
	holds(t, system, bundle)
}
