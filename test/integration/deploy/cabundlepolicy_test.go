package deploy

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The words of the policies of caBundles.
const (
	onlyAskingAPIServices = "APIServices only that ask for the CA bundle"
	onlyAskingCRDs        = "CustomResourceDefinitions only that ask for the CA bundle"
	onlyAPIServiceBundle  = "only spec.caBundle of an APIService"
	onlyCRDBundle         = "only spec.conversion.webhook.clientConfig.caBundle of a CustomResourceDefinition"
	notOfAnAPIService     = "the metadata or the status of an APIService"
	notOfACRD             = "the metadata or the status of a CustomResourceDefinition"
	cannotPatch           = "cannot patch resource"
)

// newAPIService is one that nobody serves.
func newAPIService(t *testing.T, annotations string) *unstructured.Unstructured {
	t.Helper()
	return made(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.policies.example.com, labels: {a: b}, annotations: {`+annotations+`}}
spec: {group: policies.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10, service: {namespace: shop, name: a}}
`)
}

// crd is one that asks for the bundle, with a conversion webhook, a group of its own, and a schema of at least size bytes.
func crd(size int) string {
	var schema strings.Builder
	group := "policies-" + utilrand.String(6) + ".example.org"
	for i := 0; schema.Len() <= size; i++ {
		fmt.Fprintf(&schema, "            field%d: {type: object, description: %s, properties: {a: {type: string}, b: {type: integer}}}\n", i, strings.Repeat("what it is ", 10))
	}
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.` + group + `, labels: {a: b}, annotations: {` + ours + `}}
spec:
  group: ` + group + `
  names: {plural: toys, singular: toy, kind: Toy}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: shop, name: a}}}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
` + schema.String()
}

// made creates the object of a manifest, and deletes it when the test ends.
func made(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := kept(t, manifest)
	t.Cleanup(func() { assert.NoError(t, harness.Remove(context.Background(), adminClient(t), obj)) })
	return obj
}

// kept creates the object of a manifest, and leaves it.
func kept(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &obj.Object))
	require.NoError(t, adminClient(t).Create(t.Context(), obj))
	return obj
}

// aCertificate is one of a CA, PEM in base64: the API server refuses other bytes in
// a CustomResourceDefinition.
func aCertificate(t *testing.T) string {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, api.DefaultLimits().Constraints(), pki.NotBefore(time.Now()), time.Now().Add(time.Hour))
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pki.NewBundle(root).PEM())
}

// rotatorMayNot waits until the API server has taken up the policy of the name, which
// refuses the patch.
func rotatorMayNot(t *testing.T, obj *unstructured.Unstructured, patch, policy string) {
	t.Helper()
	rotator := as(t, "servingcert-trust")
	harness.Eventually(t, func() error {
		err := rotator.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), policy) {
			return fmt.Errorf("no policy keeps the rotator from it: %w", err)
		}
		return nil
	})
}

const (
	ours      = `servingcert.dev/inject-ca-bundle: "true"`
	beta      = `service.beta.openshift.io/inject-cabundle: "TRUE"`
	alpha     = `service.alpha.openshift.io/inject-cabundle: "true"`
	oursFalse = `servingcert.dev/inject-ca-bundle: "false", service.beta.openshift.io/inject-cabundle: "true"`
)

func TestWhatTheRotatorMayChangeOfAnAPIService(t *testing.T) {
	rotator := as(t, "servingcert-trust")
	const bundle = `{"spec":{"caBundle":"bmV3"}}`
	for _, test := range []struct{ name, annotations, patch, refusal string }{
		{"asked in our words", ours, bundle, ""},
		{"asked in OpenShift's words", beta, bundle, ""},
		{"asked in OpenShift's older words", alpha, bundle, ""},
		{"not asked", "", bundle, onlyAskingAPIServices},
		{"asked not to", oursFalse, bundle, onlyAskingAPIServices},
		{"asked by the write itself", "", `{"metadata":{"annotations":{"servingcert.dev/inject-ca-bundle":"true"}},"spec":{"caBundle":"bmV3"}}`, onlyAskingAPIServices},
		{"another Service", ours, `{"spec":{"service":{"name":"mine"}}}`, onlyAPIServiceBundle},
		{"no Service", ours, `{"spec":{"service":null}}`, onlyAPIServiceBundle},
		{"no verification", ours, `{"spec":{"insecureSkipTLSVerify":true}}`, onlyAPIServiceBundle},
		{"another priority", ours, `{"spec":{"groupPriorityMinimum":20000}}`, onlyAPIServiceBundle},
		{"a label", ours, `{"metadata":{"labels":{"a":"c"}}}`, notOfAnAPIService},
		{"the annotation away", ours, `{"metadata":{"annotations":null}}`, notOfAnAPIService},
		{"a finalizer", ours, `{"metadata":{"finalizers":["example.com/stay"]}}`, notOfAnAPIService},
		{"an owner", ours, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"1"}]}}`, notOfAnAPIService},
		{"ownership alone, not asked", "", `{"metadata":{"managedFields":[{}]}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := newAPIService(t, test.annotations)
			rotatorMayNot(t, obj, `{"spec":{"versionPriority":11}}`, "servingcert-rotator-apiservices")
			refusedWith(t, rotator.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(test.patch))), test.refusal)
		})
	}
}

func TestWhatTheRotatorMayChangeOfACRD(t *testing.T) {
	rotator, admin := as(t, "servingcert-trust"), adminClient(t)
	const otherNames = `{"spec":{"names":{"shortNames":["p"]}}}`
	patchIs := func(obj *unstructured.Unstructured, patch, refusal string) {
		t.Helper()
		harness.Eventually(t, func() error { // the API server writes its status meanwhile
			err := rotator.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
			if apierrors.IsConflict(err) {
				return err
			}
			refusedWith(t, err, refusal)
			return nil
		})
	}
	large, obj := kept(t, crd(100<<10)), made(t, crd(0)) // to delete the large one takes the API server seconds
	rotatorMayNot(t, obj, otherNames, "servingcert-rotator-crds")
	const bundle = `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":%q}}}}}`
	valid := fmt.Sprintf(bundle, aCertificate(t))
	for _, test := range []struct{ name, annotations, patch, refusal string }{
		{"asked in our words", ours, valid, ""},
		{"asked in OpenShift's words", beta, valid, ""},
		{"asked in OpenShift's older words", alpha, valid, ""},
		{"not asked", "", valid, onlyAskingCRDs},
		{"asked not to", oursFalse, valid, onlyAskingCRDs},
		{"another Service", ours, `{"spec":{"conversion":{"webhook":{"clientConfig":{"service":{"name":"mine"}}}}}}`, onlyCRDBundle},
		{"a URL", ours, `{"spec":{"conversion":{"webhook":{"clientConfig":{"service":null,"url":"https://mine.example.com/"}}}}}`, onlyCRDBundle},
		{"other review versions", ours, `{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1","v2"]}}}}`, onlyCRDBundle},
		{"no conversion", ours, `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`, onlyCRDBundle},
		{"the schema", ours, `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, onlyCRDBundle},
		{"short names", ours, `{"spec":{"names":{"shortNames":["pods"]}}}`, onlyCRDBundle},
		{"a label", ours, `{"metadata":{"labels":{"a":"c"}}}`, notOfACRD},
		{"the annotation away", ours, `{"metadata":{"annotations":null}}`, notOfACRD},
		{"a finalizer", ours, `{"metadata":{"finalizers":["example.com/stay"]}}`, notOfACRD},
		{"an owner", ours, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"1"}]}}`, notOfACRD},
		{"ownership alone, not asked", "", `{"metadata":{"managedFields":[{}]}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			annotate := `[{"op":"add","path":"/metadata/annotations","value":` + asJSON(t, "{"+test.annotations+"}") + `}]`
			require.NoError(t, admin.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(annotate))))
			patchIs(obj, test.patch, test.refusal)
		})
	}
	t.Run("a schema of 100 KiB, as large operators have", func(t *testing.T) { // within the API server's limits for expressions
		patchIs(large, valid, "")
		patchIs(large, otherNames, onlyCRDBundle)
	})
}

func asJSON(t *testing.T, manifest string) string {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	require.NoError(t, err)
	return string(data)
}

// Policies do not apply to webhook configurations, so the rotator may patch those
// alone that a role names.
func TestWhichWebhookConfigurationsTheRotatorMayPatch(t *testing.T) {
	rotator, admin := as(t, "servingcert-trust"), adminClient(t)
	patch := func(kind, name string) error {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}}}
		return rotator.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`)))
	}
	made(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: others, annotations: {`+ours+`}}}`)
	made(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: servingcert, annotations: {`+ours+`}}}`)

	require.NoError(t, patch("MutatingWebhookConfiguration", "servingcert"))
	require.ErrorContains(t, patch("MutatingWebhookConfiguration", "others"), cannotPatch)
	require.ErrorContains(t, patch("ValidatingWebhookConfiguration", "servingcert"), cannotPatch)

	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "more-"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, ResourceNames: []string{"others"}, Verbs: []string{"patch"}}},
	}
	require.NoError(t, admin.Create(t.Context(), role))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "servingcert-trust", Namespace: "servingcert-system"}},
	}
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() { assert.NoError(t, harness.Remove[client.Object](context.Background(), admin, binding, role)) })
	harness.Eventually(t, func() error { return patch("MutatingWebhookConfiguration", "others") })
}
