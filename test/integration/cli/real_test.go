package cli

import (
	"crypto/tls"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// installation is a signer and a rotator that run, with the shortest times that
// show something.
type installation struct {
	namespace       string
	signer, rotator *harness.Program
}

func install(t *testing.T, rotatorFlags ...string) installation {
	t.Helper()
	i := installation{namespace: newNamespace(t, "real", nil)}
	common := []string{
		"--kubeconfig", plane.KubeconfigFile(), "--namespace", i.namespace,
		"--metrics-addr=0",
	}
	i.signer = run(t, "signer", slices.Concat(common, []string{"--instance", i.namespace, "--ca-soak=1s", "--ca-reissue-window=1s"})...)
	i.rotator = run(t, "rotator", slices.Concat(common, rotatorFlags)...)
	playWebhook(t, i.namespace)
	return i
}

func run(t *testing.T, name string, args ...string) *harness.Program {
	t.Helper()
	p := &harness.Program{Path: filepath.Join(binaries, name), Args: args}
	p.Launch(t)
	return p
}

func waitFor(t *testing.T, done func() bool, what string) {
	t.Helper()
	require.Eventually(t, done, patience, 200*time.Millisecond, what)
}

// bundleOf returns the roots that clients of a namespace are given.
func bundleOf(t *testing.T, namespace string) []string {
	t.Helper()
	cm, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), api.BundleName, metav1.GetOptions{})
	require.NoError(t, err)
	bundle, err := pki.ParseBundle([]byte(cm.Data[api.BundleKey]))
	require.NoError(t, err)
	var names []string
	for _, root := range bundle.Certificates() {
		names = append(names, root.Subject.CommonName)
	}
	return names
}

// secretOf returns what is in the Secret at the moment.
func secretOf(namespace, name string) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		secret, err := admin.CoreV1().Secrets(namespace).Get(hello.Context(), name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		return &pair, err
	}
}
