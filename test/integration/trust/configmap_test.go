package trust

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// openShift asks for the bundle by OpenShift's annotation.
func openShift() map[string]string {
	return map[string]string{api.OpenShiftInjectCABundle: "true"}
}

// newConfigMap makes an annotated ConfigMap in a namespace that is not opted in.
func newConfigMap(t *testing.T, annotations, data map[string]string, with ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "client-"}}
	create(t, ns)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "trust", Annotations: annotations}, Data: data}
	for _, set := range with {
		set(cm)
	}
	create(t, cm)
	return cm
}

// dataIs waits until the ConfigMap's data is exactly as wanted.
func dataIs(t *testing.T, cm *corev1.ConfigMap, want map[string]string) {
	t.Helper()
	harness.Eventually(t, func() error {
		if got := read(t, cm).Data; !maps.Equal(got, want) {
			return fmt.Errorf("ConfigMap %s/%s holds %.60q, want %.60q", cm.Namespace, cm.Name, got, want)
		}
		return nil
	})
}

// The API server lets a key be in data or in binaryData, so that bytes of that name
// would keep the bundle out.
func TestConfigMapWithBytesInTheWay(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	startRotator(t)
	bytes := map[string][]byte{api.BundleKey: {0xff}, "bytes": {1}}
	cm := newConfigMap(t, annotation(), map[string]string{"a": "b"}, func(cm *corev1.ConfigMap) { cm.BinaryData = bytes })
	dataIs(t, cm, map[string]string{"a": "b", api.BundleKey: bundle})
	assert.Equal(t, map[string][]byte{"bytes": {1}}, cm.BinaryData)

	harness.Change(t, admin, cm, func(cm *corev1.ConfigMap) { cm.Data, cm.BinaryData = nil, bytes })
	dataIs(t, cm, map[string]string{api.BundleKey: bundle})

	ns := newNamespace(t)
	holds(t, ns, bundle)
	harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) { cm.Data, cm.BinaryData = nil, bytes })
	holds(t, ns, bundle)
}

// What is servingcert's own is not a target, whatever its annotations.
func TestOwnConfigMapsAreNoTargets(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t, compat)
	status(t, map[string]string{api.TrustBundleHash: hash(t, bundle), api.TrustTargets: "0"})
	everyAnnotation := map[string]string{api.OpenShiftInjectCABundle: "true", api.OpenShiftInjectCABundleAlpha: "true"}
	conventional := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.ConventionalStatusName}, Data: map[string]string{"shop": "true"}}
	create(t, conventional)
	for _, cm := range []*corev1.ConfigMap{sourceConfigMap(), trustStatus(), conventional} {
		for _, annotations := range []map[string]string{everyAnnotation, annotation(), nil} {
			harness.Change(t, admin, cm, func(cm *corev1.ConfigMap) { cm.Annotations = annotations })
			passed(t, bundle)
		}
	}
	assert.Equal(t, map[string]string{api.BundleKey: bundle, "phase": "Stable"}, read(t, sourceConfigMap()).Data)
	assert.Equal(t, map[string]string{"shop": "true"}, read(t, conventional).Data)
	said := read(t, trustStatus()).Data
	assert.NotContains(t, said, api.BundleKey)
	assert.NotContains(t, said, api.OpenShiftBundleKey)
	assert.Zero(t, r.requests.count(api.CAStatusName))
	require.Error(t, disowned(t, trustStatus()), "the status is the rotator's")
	assert.Zero(t, r.series(t, "servingcert_trust_targets")["kind=ConfigMap state=holds"])
}

// The bundle of an opted-in namespace is one target, whatever its annotations say;
// where the namespace is not opted in, the annotation counts.
func TestBundleIsOneTarget(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t, compat)
	ns := newNamespace(t)
	holds(t, ns, bundle)
	for _, annotations := range []map[string]string{annotation(), openShift()} {
		harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) { cm.Annotations, cm.Data["extra"] = annotations, "kept" })
		r.settled(t)
		status(t, map[string]string{api.TrustTargets: "1", api.TrustHolding: "1"})
		dataIs(t, bundleConfigMap(ns), map[string]string{"extra": "kept", api.BundleKey: bundle})
		require.Error(t, disowned(t, bundleConfigMap(ns)), "it is owned as before")
		harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) { cm.Data[api.BundleKey] = "garbage" })
		holds(t, ns, bundle)
	}
	writes := r.requests.count("/" + ns + "/configmaps")
	r.settled(t)
	assert.Equal(t, writes, r.requests.count("/"+ns+"/configmaps"), "nobody fights")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	harness.Change(t, admin, namespace, func(ns *corev1.Namespace) { ns.Labels = nil })
	dataIs(t, bundleConfigMap(ns), map[string]string{api.OpenShiftBundleKey: bundle})
	status(t, map[string]string{api.TrustTargets: "1", api.TrustHolding: "1"})
	harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) { cm.Annotations = annotation() })
	dataIs(t, bundleConfigMap(ns), map[string]string{api.OpenShiftBundleKey: bundle, api.BundleKey: bundle})
	harness.Change(t, admin, namespace, func(ns *corev1.Namespace) { ns.Labels = map[string]string{api.LabelInject: api.InjectEnabled} })
	harness.Change(t, admin, bundleConfigMap(ns), func(cm *corev1.ConfigMap) { delete(cm.Data, api.BundleKey) })
	holds(t, ns, bundle)
	status(t, map[string]string{api.TrustTargets: "1", api.TrustHolding: "1"})
	r.shows(t, "servingcert_trust_targets", "kind=NamespaceConfigMap state=holds", 1)
	r.shows(t, "servingcert_trust_targets", "kind=ConfigMap state=holds", 0)
}

// An annotation that is not valid is reported, and is not a target.
func TestUnsuitableConfigMaps(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	wrong := newConfigMap(t, map[string]string{api.AnnotationInjectCABundle: "yes"}, map[string]string{api.BundleKey: "theirs"})
	root := newConfigMap(t, annotation(), map[string]string{api.BundleKey: "the API server's"}, func(cm *corev1.ConfigMap) { cm.Name = "kube-root-ca.crt" })
	assert.Contains(t, event(t, wrong.Namespace, trustcontroller.EventUnsuitable, wrong.Name), `"yes": must be "true" or "false"`)
	assert.Contains(t, event(t, root.Namespace, trustcontroller.EventUnsuitable, root.Name), "annotate another")
	r.shows(t, "servingcert_trust_targets", "kind=ConfigMap state=unsuitable", 2)
	status(t, map[string]string{api.TrustTargets: "0"})
	dataIs(t, wrong, map[string]string{api.BundleKey: "theirs"})
	dataIs(t, root, map[string]string{api.BundleKey: "the API server's"})
}

// An owner who applies keys of their own, again and again, meets no conflict and
// loses nothing; one who claims the key meets one.
func TestGitOpsConfigMap(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	cm := newConfigMap(t, annotation(), nil)
	dataIs(t, cm, map[string]string{api.BundleKey: bundle})
	apply := func(data map[string]string) error {
		doc := applycorev1.ConfigMap(cm.Name, cm.Namespace).WithData(data)
		return admin.Apply(t.Context(), doc, client.FieldOwner("gitops"))
	}
	require.NoError(t, apply(map[string]string{"a": "1"}))
	require.NoError(t, apply(map[string]string{"b": "2"}))
	passed(t, bundle)
	dataIs(t, cm, map[string]string{"b": "2", api.BundleKey: bundle})
	assert.Equal(t, 1, r.requests.count("/"+cm.Namespace+"/configmaps"))
	require.ErrorContains(t, apply(map[string]string{api.BundleKey: ""}), "conflict with \""+trust.FieldManager+"\"")
}
