package deploy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// Whoever applies the file again, a GitOps tool every few minutes, changes
// nothing: not even the caBundle that the rotator has written meanwhile.
func TestApplyAgainChangesNothing(t *testing.T) {
	admin := adminClient(t)
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	webhook.Name = "servingcert"
	bundle := fmt.Appendf(nil, `[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"}]`)
	patch := client.RawPatch(types.JSONPatchType, bundle)
	require.NoError(t, as(t, "servingcert-trust").Patch(t.Context(), webhook, patch))
	require.NotEmpty(t, webhook.Webhooks[0].ClientConfig.CABundle)

	before := versions(t, admin)
	require.NoError(t, deploy.Apply(t.Context(), admin, owner))
	assert.Equal(t, before, versions(t, admin))

	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(webhook), webhook))
	assert.NotEmpty(t, webhook.Webhooks[0].ClientConfig.CABundle, "the rotator's caBundle survives")
}

// versions returns the version of each object of the file: of those with a status,
// which others write to at any time, that of the spec.
func versions(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	versions := map[string]string{}
	for _, obj := range objects {
		name := obj.GetKind() + " " + client.ObjectKeyFromObject(obj).String()
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj), name)
		if _, hasStatus := obj.Object["status"]; hasStatus {
			versions[name] = fmt.Sprintf("generation %d", obj.GetGeneration())
		} else {
			versions[name] = "resourceVersion " + obj.GetResourceVersion()
		}
	}
	require.NotEmpty(t, versions)
	return versions
}

func TestPoliciesHaveNoTypeErrors(t *testing.T) {
	objects, err := deploy.Objects()
	require.NoError(t, err)
	checked := 0
	for _, obj := range objects {
		if obj.GetKind() == "ValidatingAdmissionPolicy" {
			assert.Empty(t, typeErrors(t, obj.GetName()), obj.GetName())
			checked++
		}
	}
	assert.Greater(t, checked, 10)
}

// typeErrors returns what the API server found in a policy's expressions. It checks their
// types after it took the policy, and says so in the status.
func typeErrors(t *testing.T, name string) []admissionregistrationv1.ExpressionWarning {
	t.Helper()
	admin := adminClient(t)
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), types.NamespacedName{Name: name}, &policy); err != nil {
			return err
		}
		if policy.Status.TypeChecking == nil || policy.Status.ObservedGeneration != policy.Generation {
			return fmt.Errorf("%s was not checked yet", name)
		}
		return nil
	})
	return policy.Status.TypeChecking.ExpressionWarnings
}

// That the pods are there shows two things: they meet the restricted Pod Security
// Standard that their namespace enforces, and the webhook, which nobody answers
// for here, is not asked about them although the namespace is opted in.
func TestOwnPodsAreAdmitted(t *testing.T) {
	admin := adminClient(t)
	for _, name := range []string{"signer", "trust", "rotator", "webhook"} {
		harness.Eventually(t, func() error {
			var pods corev1.PodList
			err := admin.List(t.Context(), &pods, client.InNamespace(api.DefaultNamespace),
				client.MatchingLabels{"app.kubernetes.io/part-of": "servingcert", "app.kubernetes.io/name": name})
			if err == nil && len(pods.Items) != 2 {
				err = fmt.Errorf("%s has %d pods, want 2", name, len(pods.Items))
			}
			return err
		})
	}
}
