//go:build linux && programs

package programs

import (
	"crypto"
	"crypto/tls"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	hackprocess "github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// plugins are the programs that this test binary runs as itself.
var plugins = hackprocess.Programs{"kubectl-servingcert": pluginapp.Main}

// published is a program's pod in a namespace of the cluster, with its Service and Secret. Nothing of
// servingcert runs there.
type published struct {
	client     client.Client
	namespace  string
	kubeconfig string
}

// publish writes the pod, ready at the site's address, and its Service.
func publish(t *testing.T, s *site, p program, pod *corev1.Pod) published {
	t.Helper()
	content := s.root.kubeconfig(t)
	c, err := client.New(s.root.cluster.AdminConfig(), client.Options{})
	require.NoError(t, err)
	out := published{client: c, namespace: p.name, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	require.NoError(t, os.WriteFile(out.kubeconfig, content, 0o600))
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: out.namespace}}))
	port := corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromInt32(int32(p.port))}
	if p.protocol != "" {
		port.Name = string(p.protocol)
	}
	require.NoError(t, c.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: out.namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{port}},
	}))
	pod = pod.DeepCopy()
	pod.Namespace, pod.Spec.NodeName, pod.Spec.AutomountServiceAccountToken = out.namespace, "node", new(false)
	harness.Eventually(t, func() error { return c.Create(t.Context(), pod) }) // the namespace's account comes first
	require.NoError(t, harness.Ready(t.Context(), c, pod, s.at))
	return out
}

// hold has the Secret hold the pair.
func (p published) hold(t *testing.T, pair *tls.Certificate, bundle []byte) {
	t.Helper()
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: secretName}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(pair.Leaf), corev1.TLSPrivateKeyKey: key, api.BundleKey: bundle},
	}
	if err = p.client.Update(t.Context(), secret); client.IgnoreNotFound(err) == nil && err != nil {
		err = p.client.Create(t.Context(), secret)
	}
	require.NoError(t, err)
}

// reports asserts what kubectl servingcert verify --any reports of the program's port.
func (p published) reports(t *testing.T, state string, problems ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), plugins.Path(t, "kubectl-servingcert"), "verify", "--any", "--direct", "-n", p.namespace, "-o", "json", "--timeout", patience.String(), "--kubeconfig", p.kubeconfig)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	assert.Equal(t, len(problems) > 0, err != nil, "%v", err)
	var got struct {
		Ports []struct {
			Serves, SecretState, Trust, Leaf string
			Problems                         []string
		}
	}
	require.NoError(t, json.Unmarshal(out, &got), "%s", out)
	require.Len(t, got.Ports, 1, "%s", out)
	port := got.Ports[0]
	assert.Equal(t, []string{"tls", state, "secret"}, []string{port.Serves, port.SecretState, port.Trust}, "%s", out)
	assert.Equal(t, problems, port.Problems, "%s", out)
}
