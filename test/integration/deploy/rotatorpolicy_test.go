package deploy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// The words of the rotator's policy.
const (
	onlyAsking  = "ConfigMaps only that ask for the CA bundle"
	onlyBundle  = "the CA bundle and what is made of it only"
	keepsOthers = "may not remove other keys"
	noMetadata  = "may not change a ConfigMap's metadata"
)

func TestWhichConfigMapsTheRotatorMayWrite(t *testing.T) {
	rotator, admin := as(t, "servingcert-trust"), adminClient(t)
	ours := map[string]string{api.AnnotationInjectCABundle: "true"}
	beta := map[string]string{api.OpenShiftInjectCABundle: "TRUE"}
	alpha := map[string]string{api.OpenShiftInjectCABundleAlpha: "true"}
	oursNot := map[string]string{api.AnnotationInjectCABundle: "false", api.OpenShiftInjectCABundle: "true"}
	const both = `{"data":{"ca.crt":"new","service-ca.crt":"new"},"binaryData":{"ca.crt":null}}`
	for _, test := range []struct {
		name        string
		annotations map[string]string
		patch       string
		refusal     string // "" if it is allowed
	}{
		{"asked in our words", ours, both, ""},
		{"asked in OpenShift's words", beta, both, ""},
		{"asked in OpenShift's older words", alpha, both, ""},
		{"not asked", nil, both, onlyAsking},
		{"asked not to", oursNot, both, onlyAsking},
		{"asked by the write itself", nil, `{"metadata":{"annotations":{"servingcert.dev/inject-ca-bundle":"true"}},"data":{"service-ca.crt":"new"}}`, onlyAsking},
		{"another key", ours, `{"data":{"other":"new"}}`, onlyBundle},
		{"a new key", ours, `{"data":{"more":"new"}}`, onlyBundle},
		{"another binary key", ours, `{"binaryData":{"bytes":"bmV3"}}`, onlyBundle},
		{"another key, asked in OpenShift's words", beta, `{"data":{"other":"new"}}`, onlyBundle},
		{"files of the bundle", ours, `{"data":{"ca-with-public.crt":"new"},"binaryData":{"truststore.p12":"bmV3","truststore-with-public.p12":"bmV3"}}`, ""},
		{"a truststore as text", ours, `{"data":{"truststore.p12":"new"}}`, onlyBundle},
		{"a bundle as bytes", ours, `{"binaryData":{"ca-with-public.crt":"bmV3"}}`, onlyBundle},
		{"another key away", ours, `{"data":{"other":null}}`, keepsOthers},
		{"another key away, as service-ca does", beta, `{"data":{"other":null,"service-ca.crt":"new"}}`, ""},
		{"another binary key away", beta, `{"binaryData":{"bytes":null}}`, keepsOthers},
		{"a label", ours, `{"metadata":{"labels":{"a":"b"}}}`, noMetadata},
		{"the annotation away", ours, `{"metadata":{"annotations":null}}`, noMetadata},
		{"make it immutable", ours, `{"immutable":true}`, noMetadata},
		{"ownership alone, not asked", nil, `{"metadata":{"managedFields":[{}]}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			cm := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t, false), Name: "trust", Annotations: test.annotations},
				Data:       map[string]string{"other": "kept"},
				BinaryData: map[string][]byte{"ca.crt": {1}, "bytes": {2}},
			}
			require.NoError(t, admin.Create(t.Context(), cm))
			refusedWith(t, rotator.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(test.patch))), test.refusal)
		})
	}
}

func TestTheRotatorsOwnConfigMaps(t *testing.T) {
	rotator := as(t, "servingcert-trust")
	apply := func(namespace, name, key string) error {
		doc := applycorev1.ConfigMap(name, namespace).WithData(map[string]string{key: "new"})
		return rotator.Apply(t.Context(), doc, client.FieldOwner("servingcert-trust"), client.ForceOwnership)
	}
	namespace := newNamespace(t, true)
	require.NoError(t, apply(namespace, api.BundleName, api.BundleKey))
	refusedWith(t, apply(namespace, api.BundleName, "other"), onlyBundle)
	for what, change := range map[string]func(*applycorev1.ConfigMapApplyConfiguration){
		"a label":       func(cm *applycorev1.ConfigMapApplyConfiguration) { cm.WithLabels(map[string]string{"a": "b"}) },
		"an annotation": func(cm *applycorev1.ConfigMapApplyConfiguration) { cm.WithAnnotations(map[string]string{"a": "b"}) },
		"a finalizer":   func(cm *applycorev1.ConfigMapApplyConfiguration) { cm.WithFinalizers("example.com/x") },
		"an owner": func(cm *applycorev1.ConfigMapApplyConfiguration) {
			cm.WithOwnerReferences(applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("Service").WithName("web").WithUID("uid"))
		},
		"immutable": func(cm *applycorev1.ConfigMapApplyConfiguration) { cm.WithImmutable(true) },
	} {
		with := func(t *testing.T, namespace, name string) {
			doc := applycorev1.ConfigMap(name, namespace).WithData(map[string]string{api.BundleKey: "new"})
			change(doc)
			refusedWith(t, rotator.Apply(t.Context(), doc, client.FieldOwner("servingcert-trust")), noMetadata)
		}
		t.Run("created with "+what, func(t *testing.T) { with(t, newNamespace(t, true), api.BundleName) })
		t.Run("its status with "+what, func(t *testing.T) {
			status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.TrustStatusName}}
			require.NoError(t, client.IgnoreNotFound(adminClient(t).Delete(t.Context(), status)))
			with(t, status.Namespace, status.Name)
			require.NoError(t, apply(status.Namespace, status.Name, api.TrustTargets))
			with(t, status.Namespace, status.Name)
		})
	}
	require.NoError(t, apply(api.DefaultNamespace, api.TrustStatusName, api.TrustTargets))
	for name, key := range map[string]string{"made-by-the-rotator": api.BundleKey, api.TrustStatusName: api.TrustTargets} {
		err := apply(namespace, name, key)
		assert.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
		// Older API servers do not say that it is the right to create it that is missing.
		assert.NotContains(t, err.Error(), "ValidatingAdmissionPolicy")
		assert.True(t, apierrors.IsNotFound(adminClient(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})), name)
	}
}
