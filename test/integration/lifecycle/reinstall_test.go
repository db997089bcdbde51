package lifecycle

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// installation is the processes.
type installation []*program

// install applies install.yaml and starts the programs. The signer is ready only if
// there is a CA.
func install(t *testing.T, ca bool) installation {
	t.Helper()
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	return installation{
		start(t, "signer", ca, "--ca-soak=1s"),
		start(t, "trust", true),
		start(t, "rotator", true, "--pod-cidrs=127.0.0.0/8"),
		start(t, "webhook", true, harness.MountedWebhook(t, admin)...),
	}
}

func (i installation) stop() {
	for _, p := range i {
		p.stop()
	}
}

// uninstall deletes everything of install.yaml, the namespace and all in it, and waits
// until it is gone.
func uninstall(t *testing.T) {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	for _, obj := range objects {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), obj)))
	}
	harness.Eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKey{Name: system}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("namespace %s is still there: %w", system, errors.Join(err))
	})
}

// newPod creates a pod of the Service, and returns it as the API server keeps it.
func newPod(t *testing.T, service *corev1.Service, opts ...client.CreateOption) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, GenerateName: service.Name + "-", Labels: service.Spec.Selector},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app", Ports: []corev1.ContainerPort{{ContainerPort: 8443}}}}},
	}
	err := admin.Create(t.Context(), pod, opts...)
	return pod, err
}

// isInjected waits until a new pod gets its certificate: until the API server knows the
// webhook, and may call it.
func isInjected(t *testing.T, service *corev1.Service) {
	t.Helper()
	harness.Eventually(t, func() error {
		pod, err := newPod(t, service)
		if err == nil && pod.Labels[api.LabelInjected] != "true" {
			err = fmt.Errorf("pod %s was not injected", pod.Name)
		}
		return err
	})
}

func leafOf(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	return pki.Fingerprint(chain[0])
}

// bundleOf waits for the bundle of a namespace.
func bundleOf(t *testing.T, namespace string) string {
	t.Helper()
	cm := &corev1.ConfigMap{}
	harness.Eventually(t, func() error {
		return admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: api.BundleName}, cm)
	})
	return cm.Data[api.BundleKey]
}

// isReady waits until condition Ready of the Service has the reason.
func isReady(t *testing.T, service *corev1.Service, reason string) {
	t.Helper()
	harness.Eventually(t, func() error {
		got := &corev1.Service{}
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(service), got); err != nil {
			return err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == api.ConditionReady && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("conditions: %+v", got.Status.Conditions)
	})
}

// installedAgain has a Service with a certificate in the namespace, deletes all of
// servingcert, and installs it again. It returns the Service, and what the CA's Secret
// held.
func installedAgain(t *testing.T, namespace string) (*corev1.Service, map[string][]byte) {
	t.Helper()
	first := install(t, true)
	harness.NewNamespace(t, admin, namespace, true)
	web := harness.NewService(t, admin, namespace, "web")
	leaf, bundle := leafOf(t, harness.AwaitSecret(t, admin, namespace, "web-tls")), bundleOf(t, namespace)
	isInjected(t, web)
	backup := harness.AwaitSecret(t, admin, system, api.CASecretName).Data

	first.stop()
	uninstall(t)
	harness.Eventually(t, func() error { // once the API server has noticed that the webhook is gone, nothing is refused
		_, err := newPod(t, web)
		return err
	})

	install(t, false)
	isInjected(t, web)
	require.Equal(t, leaf, leafOf(t, harness.AwaitSecret(t, admin, namespace, "web-tls")))
	require.Equal(t, bundle, bundleOf(t, namespace))
	return web, backup
}

// Everything of servingcert is deleted, its namespace and the CA in it too, and
// installed again: pods are admitted, what tenants have stays, and a restored backup
// brings everything back. No pod is refused meanwhile.
func TestDeletedAndInstalledAgain(t *testing.T) {
	web, backup := installedAgain(t, "shop")
	leaf, bundle := leafOf(t, harness.AwaitSecret(t, admin, "shop", "web-tls")), bundleOf(t, "shop")
	pods := newStream(t, web, 1)
	late := harness.NewService(t, admin, "shop", "late")
	isReady(t, late, api.CALost)
	assert.Equal(t, leaf, leafOf(t, harness.AwaitSecret(t, admin, "shop", "web-tls")))
	assert.Equal(t, bundle, bundleOf(t, "shop"), "no client gets the interim root")
	interim := harness.AwaitSecret(t, admin, system, api.CAInterimName)
	require.NotNil(t, interim)

	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CASecretName}, Data: backup}))
	isReady(t, late, "Issued")
	harness.AwaitSecret(t, admin, "shop", "late-tls")
	assert.Equal(t, leaf, leafOf(t, harness.AwaitSecret(t, admin, "shop", "web-tls")), "the CA is the one that signed it")
	assert.Equal(t, bundle, bundleOf(t, "shop"))
	webhookServesUnder(t, bundle)
	pods.all(t)
}

// webhookServesUnder waits until the webhook's certificate is of the CA again.
func webhookServesUnder(t *testing.T, bundle string) {
	t.Helper()
	roots, err := pki.ParseBundle([]byte(bundle))
	require.NoError(t, err)
	harness.Eventually(t, func() error {
		chain, err := pki.ParseCertificates(harness.AwaitSecret(t, admin, system, "servingcert-webhook-tls").Data[corev1.TLSCertKey])
		if err != nil {
			return err
		}
		return chain[0].CheckSignatureFrom(roots.Certificates()[0])
	})
}

// Nobody has a backup, and a person keeps the root of the lost CA: the one that takes its
// place signs once clients trust both, and at every moment each certificate verifies
// under the bundle of its namespace.
func TestReplacedBesideTheRootOfTheLostCA(t *testing.T) {
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	uninstall(t) // what other tests left of the CA
	removeManaged(t)
	web, _ := installedAgain(t, "bank")
	pods := newStream(t, web, 1)
	old, leaf := bundleOf(t, "bank"), leafOf(t, harness.AwaitSecret(t, admin, "bank", "web-tls"))

	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.ExtraRootsName}, Data: map[string]string{"former.crt": old}}))
	status := &corev1.ConfigMap{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: api.CAStatusName}, status))
	patch := client.MergeFrom(status.DeepCopy())
	status.Annotations = api.RotateRequest{Mode: api.RotateReplaceLost, Reason: "no backup"}.Annotations()
	require.NoError(t, admin.Patch(t.Context(), status, patch))

	harness.Eventually(t, func() error {
		secret := harness.AwaitSecret(t, admin, "bank", "web-tls") // before the bundle, which was written first
		bundle, err := pki.ParseBundle([]byte(bundleOf(t, "bank")))
		require.NoError(t, err)
		chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(bundle.Certificates(), func(root *x509.Certificate) bool { return chain[0].CheckSignatureFrom(root) == nil }),
			"the certificate does not verify under the bundle")
		if leafOf(t, secret) == leaf {
			return errors.New("the certificate is the old one")
		}
		return nil
	})
	assert.Contains(t, bundleOf(t, "bank"), old, "clients still trust what was signed before")
	pods.all(t)
}

// removeManaged deletes the namespaces' certificates, as somebody does who starts anew.
func removeManaged(t *testing.T) {
	t.Helper()
	var secrets corev1.SecretList
	require.NoError(t, admin.List(t.Context(), &secrets, client.HasLabels{api.LabelManagedBy}))
	for _, secret := range secrets.Items {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), &secret)))
	}
}
