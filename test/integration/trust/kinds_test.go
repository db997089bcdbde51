package trust

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/trust"
)

// kindCase is a kind of annotated object: one that gets the bundle in one place.
type kindCase struct {
	manifest string
	empty    func() client.Object
	// caBundle points at the field.
	caBundle func(client.Object) *[]byte
}

func kindCases() map[string]kindCase {
	return map[string]kindCase{
		"ValidatingWebhookConfiguration": {
			manifest: strings.NewReplacer("MutatingWebhook", "ValidatingWebhook", "name: gitops", "name: kind").Replace(manifest),
			empty:    func() client.Object { return &admissionv1.ValidatingWebhookConfiguration{} },
			caBundle: func(o client.Object) *[]byte {
				return &o.(*admissionv1.ValidatingWebhookConfiguration).Webhooks[0].ClientConfig.CABundle
			},
		},
		"APIService": {
			manifest: `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.kind.example.com, annotations: {servingcert.dev/inject-ca-bundle: "true"}}
spec: {group: kind.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10, service: {namespace: shop, name: a}}
`,
			empty: func() client.Object { return &apiregistrationv1.APIService{} },
			caBundle: func(o client.Object) *[]byte {
				return &o.(*apiregistrationv1.APIService).Spec.CABundle
			},
		},
		"CustomResourceDefinition": {
			manifest: crdManifest + `
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: shop, name: a}}}
`,
			empty: func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} },
			caBundle: func(o client.Object) *[]byte {
				return &o.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion.Webhook.ClientConfig.CABundle
			},
		},
	}
}

const crdManifest = `
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

func gitops(t *testing.T, manifest string) error {
	t.Helper()
	return admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(fromYAML(t, manifest)), client.FieldOwner("gitops"))
}

func TestKinds(t *testing.T) {
	for name, kind := range kindCases() {
		t.Run(name, func(t *testing.T) {
			first, second := newBundle(t), newBundle(t)
			setSource(t, first)
			r := startRotator(t)
			require.NoError(t, gitops(t, kind.manifest))
			object := func() client.Object {
				o := kind.empty()
				o.SetName(fromYAML(t, kind.manifest).GetName())
				return o
			}
			t.Cleanup(func() { remove(t, object()) })
			has := func(bundle string) {
				t.Helper()
				eventually(t, func() error {
					if got := string(*kind.caBundle(read(t, object()))); got != bundle {
						return fmt.Errorf("caBundle is %.40q, want %.40q", got, bundle)
					}
					return nil
				})
			}
			has(first)
			r.shows(t, "servingcert_trust_targets", "kind="+name+" state=holds", 1)

			change(t, object(), func(o client.Object) { *kind.caBundle(o) = nil })
			has(first)
			change(t, object(), func(o client.Object) { *kind.caBundle(o) = []byte(second) })
			has(first)
			event(t, "default", trust.EventRestored, object().GetName())

			setSource(t, second)
			has(second)

			require.NoError(t, gitops(t, kind.manifest), "no conflict")
			has(second)

			change(t, object(), func(o client.Object) { o.SetAnnotations(nil) })
			eventually(t, func() error { return disowned(t, object()) })
			setSource(t, first)
			passed(t, first)
			has(second)

			remove(t, object())
			passed(t, first)
			left := object()
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(left), left); err == nil {
				assert.NotNil(t, left.GetDeletionTimestamp(), "made anew") // a CRD takes its time
			}
		})
	}
}

// A caBundle that is owned would tie the owner to the conversion webhook.
func TestGitOpsDropsConversion(t *testing.T) {
	bundle := newBundle(t)
	setSource(t, bundle)
	r := startRotator(t)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "toys.games.example.com"}}
	const group = "toys.example.com"
	require.NoError(t, gitops(t, strings.ReplaceAll(kindCases()["CustomResourceDefinition"].manifest, group, "games.example.com")))
	t.Cleanup(func() { remove(t, crd) })
	r.shows(t, "servingcert_trust_targets", "kind=CustomResourceDefinition state=holds", 1)
	eventually(t, func() error { return disowned(t, crd) })

	require.NoError(t, gitops(t, strings.ReplaceAll(crdManifest, group, "games.example.com")+"  conversion: {strategy: None}\n"))
	assert.Nil(t, read(t, crd).Spec.Conversion.Webhook)
	r.shows(t, "servingcert_trust_targets", "kind=CustomResourceDefinition state=unsuitable", 1)
}

// An APIService that skips verification may not have a caBundle, and gets none.
func TestInsecureAPIService(t *testing.T) {
	setSource(t, newBundle(t))
	r := startRotator(t)
	insecure := strings.Replace(kindCases()["APIService"].manifest, "spec: {", "spec: {insecureSkipTLSVerify: true, ", 1)
	require.NoError(t, gitops(t, insecure))
	service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.kind.example.com"}}
	t.Cleanup(func() { remove(t, service) })
	r.shows(t, "servingcert_trust_targets", "kind=APIService state=unsuitable", 1)
	assert.Empty(t, read(t, service).Spec.CABundle)
	assert.Zero(t, r.requests.count("apiservices"))
	assert.Empty(t, r.series(t, "servingcert_trust_failures_total"))
}
