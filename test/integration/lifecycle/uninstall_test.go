package lifecycle

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// uninstallSteps are the kinds of each command of docs/uninstall.md, in its order. What
// is in the namespace goes with the last one.
var uninstallSteps = [][]string{
	{"MutatingWebhookConfiguration"},
	{"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"},
	{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "ClusterRoleBinding", "ClusterRole"},
	{"Namespace"},
}

// As docs/uninstall.md says it, servingcert is taken away while pods are created: none is
// refused, what tenants have stays, and nothing keeps them from deleting it.
func TestUninstalledInOrder(t *testing.T) {
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	running := installation{start(t, "signer", true), start(t, "trust", true), start(t, "rotator", true, "--pod-cidrs=127.0.0.0/8")}
	service := newBalancer(t)
	running = append(running, service.replica(t, dir, drains))
	harness.NewNamespace(t, admin, "leaving", true)
	web := harness.NewService(t, admin, "leaving", "web")
	isReady(t, web, "Issued")
	isInjected(t, web)
	leaf, bundle := leafOf(t, harness.AwaitSecret(t, admin, "leaving", "web-tls")), bundleOf(t, "leaving")
	backup := harness.AwaitSecret(t, admin, system, api.CASecretName)

	pods := newStream(t, web, 2)
	for i, kinds := range uninstallSteps[:3] {
		deleteKinds(t, kinds...)
		if i == 0 {
			pods.areBare(t) // as soon as the API server has noticed, it needs no Service
		}
		pods.meanwhile(t)
	}
	running.stop() // as their Deployments are gone
	pods.meanwhile(t)
	deleteKinds(t, uninstallSteps[3]...)
	isGone(t)
	pods.meanwhile(t)
	pods.stop()
	assert.Zero(t, pods.refused.Load(), "pods were refused; the last one: %v", pods.said.Load())
	assert.Positive(t, pods.bare.Load(), "new pods start without a certificate")

	secret := harness.AwaitSecret(t, admin, "leaving", "web-tls")
	assert.Equal(t, leaf, leafOf(t, secret))
	assert.Empty(t, secret.Finalizers)
	assert.Equal(t, bundle, bundleOf(t, "leaving"))
	require.NoError(t, admin.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace("leaving"), client.HasLabels{api.LabelManagedBy}))
	require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "leaving", Name: api.BundleName}}))
	assert.True(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)), "removed by its label")

	// Back again, with the backup: what was issued elsewhere stays valid.
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: backup.Name}, Data: backup.Data}))
}

// deleteKinds deletes what install.yaml has of the kinds, by the label that the commands
// of docs/uninstall.md select.
func deleteKinds(t *testing.T, kinds ...string) {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	for _, kind := range kinds {
		for _, obj := range objects {
			if obj.GetKind() != kind {
				continue
			}
			assert.Equal(t, "servingcert", obj.GetLabels()["app.kubernetes.io/part-of"], "%s %s", kind, obj.GetName())
			require.NoError(t, admin.Delete(t.Context(), obj))
		}
	}
}

// isGone waits until nothing of install.yaml exists.
func isGone(t *testing.T) {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	harness.Eventually(t, func() error {
		for _, obj := range objects {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy()); !apierrors.IsNotFound(err) {
				return errors.Join(fmt.Errorf("%s %s is still there", obj.GetKind(), obj.GetName()), err)
			}
		}
		return nil
	})
}
