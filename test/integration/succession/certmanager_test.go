package succession

import (
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const certManagerNamespace = "cert-manager"

// certManager is cert-manager's controller, which runs on the control plane of a scene.
type certManager struct{ admin client.Client }

// startCertManager starts it, with further flags, until the test ends.
func startCertManager(t *scene, flags ...string) *certManager {
	t.Helper()
	binaries, err := controlplane.Binaries(t.Context(), os.Stderr, controlplane.CertManager)
	require.NoError(t, err)
	m := &certManager{installCertManager(t)}
	_, err = t.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: certManagerNamespace}}, metav1.CreateOptions{})
	require.NoError(t, err)

	var log harness.Log
	cmd := exec.Command(binaries[controlplane.CertManager], append(flags, "-kubeconfig", t.plane.KubeconfigFile())...)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("cert-manager:\n%s", log.String())
		}
	})
	return m
}

// installCertManager installs the kinds of cert-manager.
func installCertManager(t *scene) client.Client {
	t.Helper()
	admin, err := client.New(t.plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	crds, err := controlplane.CertManagerCRDs(t.Context())
	require.NoError(t, err)
	objects, err := deploy.Decode(crds)
	require.NoError(t, err)
	for _, crd := range objects {
		require.NoError(t, admin.Create(t.Context(), crd))
	}
	return admin
}

// create creates an object of cert-manager's, whose kind may be a moment old.
func (m *certManager) create(t *scene, object *unstructured.Unstructured) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, m.admin.Create(t.Context(), object))
	}, waitFor, 10*tick)
}

// issuer makes a ClusterIssuer of kind CA with a key pair.
func (m *certManager) issuer(t *scene, name string, certPEM, keyPEM []byte) {
	t.Helper()
	_, err := t.admin.CoreV1().Secrets(certManagerNamespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	m.create(t, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"ca": map[string]any{"secretName": name}},
	}})
}

// intermediate makes the Certificate of a page, for the cluster of this name, and waits for
// the Secret that is imported.
func (m *certManager) intermediate(t *scene, page, cluster string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(apiVersion: cert-manager.io/v1\n.*?)```").FindSubmatch(text)
	require.NotNil(t, block, page)
	certificate := &unstructured.Unstructured{}
	require.NoError(t, yaml.UnmarshalStrict(block[1], &certificate.Object))
	require.NoError(t, unstructured.SetNestedStringSlice(certificate.Object, []string{cluster}, "spec", "subject", "organizationalUnits"))
	m.create(t, certificate)
	require.Eventually(t, func() bool {
		_, err := t.admin.CoreV1().Secrets(api.DefaultNamespace).Get(t.Context(), api.CAImportName, metav1.GetOptions{})
		return err == nil
	}, waitFor, tick, "cert-manager issues it")
}

// renew does what cmctl renew does: it asks by a condition of the Certificate.
func (m *certManager) renew(t *scene, namespace, name string) {
	t.Helper()
	certificate := &unstructured.Unstructured{}
	certificate.SetAPIVersion("cert-manager.io/v1")
	certificate.SetKind("Certificate")
	require.Eventually(t, func() bool {
		if err := m.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, certificate); err != nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(certificate.Object, "status", "conditions")
		conditions = append(conditions, map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "asked for by a test",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		})
		if err := unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"); err != nil {
			return false
		}
		return m.admin.Status().Update(t.Context(), certificate) == nil
	}, waitFor, tick, "ask for a renewal")
}
