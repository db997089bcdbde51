package rotator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The rotator may read no Secret: that one is there it has from the signer, for
// which the test speaks.
func TestPodsOlderThanTheConventionalSecret(t *testing.T) {
	ns, other := harness.TemporaryNamespace(t, admin, true), harness.TemporaryNamespace(t, admin, true)
	serves := func(namespace, name string) *corev1.Pod {
		p := newPod(namespace, name, "scheduler")
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 10259}}
		return p
	}
	before := serves(ns, "before")
	create(t, before)
	create(t, newPod(ns, "no-port", "scheduler"))
	create(t, serves(other, "elsewhere"))
	caughtUp(t)
	counts(t, ns, "0")

	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: api.ConventionalSecretName}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil},
	})
	said := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.ConventionalStatusName}}
	said.Data = map[string]string{api.ConventionalNamespacesKey: api.FormatNamespaces([]string{ns, "gone"})}
	create(t, said)
	counts(t, ns, "1")
	e := event(t, ns)
	assert.Equal(t, "Pod before", e.Regarding.Kind+" "+e.Regarding.Name)
	assert.Contains(t, e.Note, "pod before was not injected with Secret serving-cert, which every new pod with a port gets in this namespace")
	counts(t, other, "0")

	remove(t, before)
	create(t, serves(ns, "after"))
	hasPods(t, ns, 2, 1)
	counts(t, ns, "0")

	webhook.leave(ns)
	create(t, serves(ns, "meanwhile"))
	counts(t, ns, "1")
	harness.Change(t, admin, said, func(said *corev1.ConfigMap) { said.Data = nil })
	counts(t, ns, "0")
	harness.Change(t, admin, said, func(said *corev1.ConfigMap) { said.Data = map[string]string{api.ConventionalNamespacesKey: ns} })
	counts(t, ns, "1")
	remove(t, said)
	counts(t, ns, "0")
}
