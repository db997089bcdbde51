package deploy

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// With --ca-issuer the signer asks cert-manager for serving certificates, in its own namespace, and
// deletes only what it asked for. Without the optional manifest it does neither.
func TestWhatTheSignerMayAskOfCertManager(t *testing.T) {
	admin, signer := adminClient(t), as(t, "servingcert-signer")
	crds, err := controlplane.CertManagerCRDs(t.Context())
	require.NoError(t, err)
	objects, err := deploy.Decode(crds)
	require.NoError(t, err)
	objects = slices.DeleteFunc(objects, func(crd *unstructured.Unstructured) bool {
		return crd.GetName() != "certificaterequests.cert-manager.io" && crd.GetName() != "clusterissuers.cert-manager.io"
	})
	require.Len(t, objects, 2)
	require.NoError(t, deploy.ApplyObjects(t.Context(), admin, owner, objects))
	t.Cleanup(func() { assert.NoError(t, harness.Remove(context.WithoutCancel(t.Context()), admin, objects...)) })

	request := func(namespace string, change ...func(object map[string]any)) *unstructured.Unstructured {
		object := map[string]any{
			"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest",
			"metadata": map[string]any{"generateName": "test-", "namespace": namespace, "labels": map[string]any{api.LabelManagedBy: "servingcert.pending"}},
			"spec": map[string]any{
				"issuerRef": map[string]any{"kind": "ClusterIssuer", "name": "company"}, "request": "eA==",
				"usages": []any{"digital signature", "key encipherment", "server auth"},
			},
		}
		for _, c := range change {
			c(object)
		}
		return &unstructured.Unstructured{Object: object}
	}
	set := func(value any, path ...string) func(map[string]any) {
		return func(object map[string]any) { assert.NoError(t, unstructured.SetNestedField(object, value, path...)) }
	}
	create := func(c client.Client, r *unstructured.Unstructured) func() error {
		return func() error { return c.Create(t.Context(), r.DeepCopy()) }
	}
	becomes(t, "", create(admin, request(api.DefaultNamespace))) // the kind is served
	becomes(t, "forbidden", create(signer, request(api.DefaultNamespace)))

	applyOptional(t, "ca-issuer.yaml")
	const usages = "may ask only for serving certificates"
	becomes(t, usages, create(signer, request(api.DefaultNamespace, set(true, "spec", "isCA"))))
	for name, c := range map[string]struct {
		request *unstructured.Unstructured
		want    string
	}{
		"a serving certificate": {request(api.DefaultNamespace), ""},
		"of a client":           {request(api.DefaultNamespace, set([]any{"server auth", "client auth"}, "spec", "usages")), usages},
		"to sign with":          {request(api.DefaultNamespace, set([]any{"cert sign"}, "spec", "usages")), usages},
		"without its label":     {request(api.DefaultNamespace, set(map[string]any{}, "metadata", "labels")), "only CertificateRequests with label " + api.LabelManagedBy},
		"in another namespace":  {request("default"), "forbidden"},
	} {
		t.Run(name, func(t *testing.T) { becomes(t, c.want, create(signer, c.request)) })
	}

	mine, other := request(api.DefaultNamespace), request(api.DefaultNamespace, set(map[string]any{}, "metadata", "labels"))
	require.NoError(t, signer.Create(t.Context(), mine))
	require.NoError(t, admin.Create(t.Context(), other))
	require.NoError(t, signer.Delete(t.Context(), mine))
	require.ErrorContains(t, signer.Delete(t.Context(), other), "may create and delete only")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"servingcert.dev/managed-by":"x"}}}`))
	require.ErrorContains(t, signer.Patch(t.Context(), other, patch), "forbidden")
	issuers := &unstructured.UnstructuredList{}
	issuers.SetAPIVersion("cert-manager.io/v1")
	issuers.SetKind("ClusterIssuerList")
	becomes(t, "forbidden", func() error { return signer.List(t.Context(), issuers) }) // discovery names this kind a moment after the other
}
