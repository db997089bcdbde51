package trust

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// kindCase is a kind of annotated object: one that gets the bundle in one place.
type kindCase struct {
	name     string
	resource string // as in its URL
	manifest string
	empty    func() client.Object
	// get and set the bundle; with "" it is removed.
	get func(client.Object) string
	set func(client.Object, string)
	// checked: the API server refuses garbage itself.
	checked bool
}

// object is an empty one with the manifest's name.
func (k kindCase) object(t *testing.T) client.Object {
	t.Helper()
	manifest := fromYAML(t, k.manifest)
	o := k.empty()
	o.SetNamespace(manifest.GetNamespace())
	o.SetName(manifest.GetName())
	return o
}

// has waits until the object holds the bundle.
func (k kindCase) has(t *testing.T, bundle string) {
	t.Helper()
	harness.Eventually(t, func() error {
		if got := k.get(read(t, k.object(t))); got != bundle {
			return fmt.Errorf("%s holds %.40q, want %.40q", k.name, got, bundle)
		}
		return nil
	})
}

// apply applies the manifest as its owner does, and deletes it when the test ends.
func (k kindCase) apply(t *testing.T) {
	t.Helper()
	require.NoError(t, gitops(t, k.manifest))
	t.Cleanup(func() { removeAndWait(t, k.object(t)) })
}

// caBundleCase is one whose place is a caBundle.
func caBundleCase(name, resource, manifest string, empty func() client.Object, caBundle func(client.Object) *[]byte) kindCase {
	return kindCase{
		name: name, resource: resource, manifest: manifest, empty: empty,
		get: func(o client.Object) string { return string(*caBundle(o)) },
		set: func(o client.Object, bundle string) { *caBundle(o) = []byte(bundle) },
	}
}

func configMapCase(name, key, manifest string) kindCase {
	return kindCase{
		name: name, resource: "configmaps", manifest: manifest,
		empty: func() client.Object { return &corev1.ConfigMap{} },
		get:   func(o client.Object) string { return o.(*corev1.ConfigMap).Data[key] },
		set: func(o client.Object, bundle string) {
			cm := o.(*corev1.ConfigMap)
			if cm.Data == nil {
				cm.Data = map[string]string{}
			}
			if cm.Data[key] = bundle; bundle == "" {
				delete(cm.Data, key)
			}
		},
	}
}

// kindCases are all annotated kinds, annotated with the given annotation.
func kindCases(annotationKey string) []kindCase {
	asking := strings.NewReplacer(api.AnnotationInjectCABundle, annotationKey)
	key := api.BundleKey
	if annotationKey != api.AnnotationInjectCABundle {
		key = api.OpenShiftBundleKey
	}
	crd := caBundleCase("CustomResourceDefinition", "customresourcedefinitions", asking.Replace(crdManifest+conversion),
		func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} },
		func(o client.Object) *[]byte {
			return &o.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion.Webhook.ClientConfig.CABundle
		})
	crd.checked = true
	return []kindCase{
		configMapCase("ConfigMap", key, asking.Replace(`
apiVersion: v1
kind: ConfigMap
metadata: {namespace: default, name: kind, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
`)),
		caBundleCase("MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
			asking.Replace(strings.ReplaceAll(manifest, "name: gitops", "name: mutating")),
			func() client.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
			func(o client.Object) *[]byte {
				return &o.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks[0].ClientConfig.CABundle
			}),
		caBundleCase("ValidatingWebhookConfiguration", "validatingwebhookconfigurations",
			asking.Replace(strings.NewReplacer("MutatingWebhook", "ValidatingWebhook", "name: gitops", "name: validating").Replace(manifest)),
			func() client.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
			func(o client.Object) *[]byte {
				return &o.(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks[0].ClientConfig.CABundle
			}),
		caBundleCase("APIService", "apiservices", asking.Replace(apiServiceManifest),
			func() client.Object { return &apiregistrationv1.APIService{} },
			func(o client.Object) *[]byte { return &o.(*apiregistrationv1.APIService).Spec.CABundle }),
		crd,
	}
}

const (
	apiServiceManifest = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.kind.example.com, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
spec: {group: kind.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10, service: {namespace: shop, name: a}}
`
	crdManifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.toys.example.com, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
spec:
  group: toys.example.com
  names: {plural: toys, singular: toy, kind: Toy}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`
	conversion = `
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: shop, name: a}}}
`
)

func gitops(t *testing.T, manifest string) error {
	t.Helper()
	return admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(fromYAML(t, manifest)), client.FieldOwner("gitops"))
}

// Of every kind: the bundle comes, and comes back whatever someone does to it, goes with the
// source, disturbs nobody's manifest, and stays where it is when it is not asked for any more.
func TestKinds(t *testing.T) {
	for annotationKey, with := range map[string]func(*trustcontroller.Config){
		api.AnnotationInjectCABundle: func(*trustcontroller.Config) {},
		api.OpenShiftInjectCABundle:  compat,
	} {
		t.Run(annotationKey, func(t *testing.T) { testKinds(t, kindCases(annotationKey), with) })
	}
}

func testKinds(t *testing.T, kinds []kindCase, with func(*trustcontroller.Config)) {
	first, second, foreign := newBundle(t), newBundle(t), newBundle(t)
	each := func(do func(kindCase)) {
		for _, kind := range kinds {
			do(kind)
		}
	}
	have := func(bundle string) { each(func(kind kindCase) { kind.has(t, bundle) }) }
	setSource(t, first)
	r := startRotator(t, with)
	each(func(kind kindCase) { kind.apply(t) })
	have(first)
	each(func(kind kindCase) {
		r.shows(t, "servingcert_trust_targets", "kind="+kind.name+" state=holds", 1)
	})
	status(t, map[string]string{api.TrustBundleHash: hash(t, first), api.TrustTargets: fmt.Sprint(len(kinds)), api.TrustHolding: fmt.Sprint(len(kinds))})

	for _, damage := range []string{"", "garbage", second, first + foreign} {
		each(func(kind kindCase) {
			if damage == "garbage" && kind.checked {
				return
			}
			harness.Change(t, admin, kind.object(t), func(o client.Object) { kind.set(o, damage) })
		})
		have(first)
	}
	each(func(kind kindCase) { event(t, "default", trustcontroller.EventRestored, kind.object(t).GetName()) })

	setSource(t, second)
	have(second)
	each(func(kind kindCase) { require.NoError(t, gitops(t, kind.manifest), "%s: no conflict", kind.name) })
	passed(t, second)
	have(second)

	each(func(kind kindCase) {
		harness.Change(t, admin, kind.object(t), func(o client.Object) { o.SetAnnotations(nil) })
	})
	each(func(kind kindCase) { harness.Eventually(t, func() error { return disowned(t, kind.object(t)) }) })
	setSource(t, first)
	passed(t, first)
	have(second)

	each(func(kind kindCase) {
		harness.Change(t, admin, kind.object(t), func(o client.Object) { o.SetAnnotations(fromYAML(t, kind.manifest).GetAnnotations()) })
	})
	have(first)
	each(func(kind kindCase) { removeAndWait(t, kind.object(t)) })
	passed(t, first)
	each(func(kind kindCase) {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(kind.object(t)), kind.empty())
		assert.True(t, apierrors.IsNotFound(err), "%s is made anew", kind.name)
	})
}

// OpenShift's annotations are ignored by default.
func TestOpenShiftsAnnotationsByDefault(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	for _, kind := range kindCases(api.OpenShiftInjectCABundle) {
		kind.apply(t)
	}
	passed(t, bundle)
	status(t, map[string]string{api.TrustTargets: "1", api.TrustHolding: "1"})
	for _, kind := range kindCases(api.OpenShiftInjectCABundle) {
		assert.Empty(t, kind.get(read(t, kind.object(t))), kind.name)
		assert.Zero(t, r.requests.count("/"+kind.resource+"/"+kind.object(t).GetName()), kind.name)
	}
}
