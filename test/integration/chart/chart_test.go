package chart

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// One story, as a person would type it (docs/install.md): installed, used, upgraded,
// taken away, installed again.
func TestHelm(t *testing.T) {
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}))
	notes := helm(t, "install", "servingcert", filepath.Join(root, "deploy/chart"), "--take-ownership", "--values", "testdata/values.yaml")
	assert.Contains(t, notes, "kubectl --namespace tls rollout status deployment")
	assert.NotContains(t, notes, "NOT LABELLED")
	installed := manifest(t)
	for _, obj := range installed {
		assert.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj), "%s %s", obj.GetKind(), obj.GetName())
	}

	require.NoError(t, harness.PoliciesInForce(t.Context(), admin))
	stopSigner, stopTrust, stopRotator := start(t, "signer"), start(t, "trust"), start(t, "rotator")
	ca := harness.AwaitSecret(t, admin, system, api.CASecretName)
	stopWebhook := startWebhook(t)
	shop(t)
	theirPolicies(t)

	before := versions(t, installed)
	secondRelease(t)
	assert.Equal(t, before, versions(t, manifest(t)), "a second release takes nothing from the first")
	helm(t, "upgrade", "servingcert", filepath.Join(root, "deploy/chart"), "--values", "testdata/values.yaml")
	assert.Equal(t, before, versions(t, manifest(t)), "an upgrade to the same changes no object")
	assert.NotEmpty(t, caBundle(t), "nor what the rotator wrote")

	helm(t, "uninstall", "servingcert")
	stopSigner()
	stopTrust()
	stopRotator()
	stopWebhook()
	for _, obj := range installed {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if obj.GetKind() == "Namespace" {
			assert.NoError(t, err)
			continue
		}
		assert.True(t, apierrors.IsNotFound(err), "%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}

	helm(t, "install", "servingcert", filepath.Join(root, "deploy/chart"), "--values", "testdata/values.yaml")
	helm(t, "upgrade", "servingcert", filepath.Join(root, "deploy/chart"), "--values", "testdata/values.yaml")
	start(t, "signer")
	start(t, "trust")
	harness.Eventually(t, func() error {
		if caBundle(t) == "" {
			return errors.New("the webhook has no caBundle")
		}
		return nil
	})
	assert.Equal(t, ca.Data, harness.AwaitSecret(t, admin, system, api.CASecretName).Data, "the CA that clients trust")
}

// secondRelease tries to install beside the first release, as a person who has forgotten it.
func secondRelease(t *testing.T) {
	t.Helper()
	install := []string{"install", "servingcert", filepath.Join(root, "deploy/chart"), "--take-ownership", "--create-namespace"}
	_, err := helmIn(t, "second", install...)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Contains(t, string(exit.Stderr), `servingcert is installed in namespace "`+system+`", and a cluster has room for one`)
	_, err = helmIn(t, "second", append(install, "--set=takeOver=true", "--dry-run=server")...)
	if errors.As(err, &exit) {
		assert.Fail(t, "takeOver is refused", string(exit.Stderr))
	}

	install[1] = "another"
	_, err = helmIn(t, system, append(install, "--dry-run=server")...)
	require.ErrorAs(t, err, &exit)
	assert.Contains(t, string(exit.Stderr), `servingcert is installed in namespace "`+system+`" by release "servingcert"`)
	_, err = helmIn(t, system, append(install, "--set=takeOver=true", "--dry-run=server")...)
	if errors.As(err, &exit) {
		assert.Fail(t, "takeOver is refused", string(exit.Stderr))
	}
}

// manifest returns what the release holds, in Helm's words.
func manifest(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := deploy.Decode([]byte(helm(t, "get", "manifest", "servingcert")))
	require.NoError(t, err)
	require.Greater(t, len(objects), 40)
	return objects
}

// versions returns the generation of each object, of those without one the version.
func versions(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, obj := range objects {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		version := fmt.Sprintf("generation %d", obj.GetGeneration())
		if _, hasStatus := obj.Object["status"]; !hasStatus {
			version = obj.GetResourceVersion()
		}
		versions[obj.GetKind()+" "+obj.GetName()] = version
	}
	return versions
}

// startWebhook waits for the certificate and the caBundle that the others make, and
// runs the webhook where its Service leads.
func startWebhook(t *testing.T) (stop func()) {
	t.Helper()
	certs := filepath.Join(dir, "certs")
	require.NoError(t, os.MkdirAll(certs, 0o700))
	for name, data := range harness.AwaitSecret(t, admin, system, "servingcert-webhook-tls").Data {
		require.NoError(t, os.WriteFile(filepath.Join(certs, name), data, 0o600))
	}
	harness.Eventually(t, func() error {
		if caBundle(t) == "" {
			return errors.New("the webhook has no caBundle")
		}
		return nil
	})
	var service corev1.Service
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-webhook"}, &service))
	assert.EqualValues(t, 10250, service.Spec.Ports[0].Port)
	return start(t, "webhook", "--cert-dir="+certs, "--bind-address="+service.Spec.ClusterIP)
}

func caBundle(t *testing.T) string {
	t.Helper()
	var webhook admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "servingcert"}, &webhook))
	return string(webhook.Webhooks[0].ClientConfig.CABundle)
}

// shop asks for a certificate as anyone does: a pod gets it.
func shop(t *testing.T) {
	t.Helper()
	harness.NewNamespace(t, admin, "shop", true)
	harness.NewService(t, admin, "shop", "web")
	harness.AwaitSecret(t, admin, "shop", "web-tls")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	harness.Eventually(t, func() error { return admin.Create(t.Context(), pod.DeepCopy(), client.DryRunAll) }) // the API server knows the caBundle
	require.NoError(t, admin.Create(t.Context(), pod))
	assert.Equal(t, "true", pod.Labels["servingcert.dev/injected"])
}

// theirPolicies narrow the ServiceAccounts by their names and namespace.
func theirPolicies(t *testing.T) {
	t.Helper()
	signer := as(t, "issuer")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreign"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil,
	}}
	assert.ErrorContains(t, signer.Create(t.Context(), foreign), "with label servingcert.dev/managed-by only")
	assert.ErrorContains(t, signer.Delete(t.Context(), harness.AwaitSecret(t, admin, system, api.CASecretName)), "the signer may not delete its CA")
	elsewhere := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: api.CASecretName}, Type: corev1.SecretTypeOpaque}
	assert.ErrorContains(t, signer.Create(t.Context(), elsewhere), "of type kubernetes.io/tls only", "what is called as the CA elsewhere is no CA")

	rotator := as(t, "bundler")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreign"}}
	require.NoError(t, admin.Create(t.Context(), config))
	config.Data = map[string]string{"a": "b"}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`))
	assert.ErrorContains(t, rotator.Patch(t.Context(), config, patch), "the rotator may write ConfigMaps only that ask for the CA bundle")
	assert.True(t, apierrors.IsForbidden(rotator.List(t.Context(), &corev1.SecretList{})))
	assert.True(t, apierrors.IsForbidden(as(t, "injector").List(t.Context(), &corev1.SecretList{})))
}

func as(t *testing.T, account string) client.Client {
	t.Helper()
	cfg, err := plane.ServiceAccountConfig(t.Context(), system, account)
	require.NoError(t, err)
	c, err := client.New(cfg, client.Options{})
	require.NoError(t, err)
	return c
}
