package succession

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// scene is a test with a control plane of its own, on which servingcert is installed: there
// is one CA to a cluster.
type scene struct {
	*testing.T
	plane *controlplane.ControlPlane
	admin kubernetes.Interface
}

// fresh begins a scene, beside those of other tests.
func fresh(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	return another(t)
}

// another begins one more scene of the same test.
func another(t *testing.T) *scene {
	t.Helper()
	plane, admin, err := installed(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plane.Stop()) })
	return &scene{t, plane, admin}
}

// fast are the flags of a signer whose successions take seconds.
var fast = []string{"--ca-soak=2s", "--ca-reissue-window=2s"}

// stop ends the program as a kubelet does, so that another can lead at once.
func (p *process) stop(t *scene) {
	t.Helper()
	require.NoError(t, p.Stop())
}

// served is what the Secret of Service web-i holds: the leaf, and what follows it.
func served(t *scene, namespace string, i int) []*x509.Certificate {
	t.Helper()
	secret, err := t.admin.CoreV1().Secrets(namespace).Get(t.Context(), secretOf(i), metav1.GetOptions{})
	require.NoError(t, err)
	certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	return certs
}

// signedBy waits until the generation signs and has replaced all certificates. The signer counts
// them whenever it looks, which by itself, once the window for them is over, is once a minute.
func signedBy(t *scene, generation string) *corev1.ConfigMap {
	t.Helper()
	looked := time.Now()
	return eventually(t, "generation "+generation+" has replaced all certificates", func(cm *corev1.ConfigMap) bool {
		if time.Since(looked) > 6*time.Second { // what it counted is used for 5 s
			looked = time.Now()
			patchStatus(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"test/now": looked.Format(time.RFC3339Nano)}}})
		}
		return cm.Data[api.CAGeneration] == generation && cm.Data[api.CAPhase] == api.PhaseRetire &&
			cm.Data[api.CALeaves] != "" && cm.Data[api.CALeaves] == cm.Data[api.CAReplaced]
	})
}

// stored is what the CA Secret holds.
func stored(t *scene) ca.State {
	t.Helper()
	s, err := ca.ParseState(secret(t).Data)
	require.NoError(t, err)
	return s
}

// said returns the notes of the events about the CA that have the reason.
func said(t *scene, reason string) []string {
	t.Helper()
	events, err := t.admin.EventsV1().Events(api.DefaultNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var notes []string
	for _, e := range events.Items {
		if e.Reason == reason && e.Regarding.Name == api.CASecretName {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

func requireSaid(t *scene, reason string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(said(t, reason)) > 0 }, waitFor, tick, "event %s", reason)
}

// verifies checks the chain as a client does that holds one root only.
func verifies(t *scene, chain []*x509.Certificate, root *x509.Certificate) {
	t.Helper()
	assert.NoError(t, pki.VerifyServing(chain[0], chain[1:], root, chain[0].NotBefore.Add(pki.Backdate)), "with %s alone", root.Subject)
}

// newService makes an annotated Service in shop that asks for Secret NAME-tls.
func newService(t *scene, name string) {
	t.Helper()
	_, err := t.admin.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func ready(t *scene, service string) *metav1.Condition {
	t.Helper()
	svc, err := t.admin.CoreV1().Services("shop").Get(t.Context(), service, metav1.GetOptions{})
	require.NoError(t, err)
	return api.Condition(svc, api.ConditionReady)
}

// notReady waits until the Service says why it has no certificate, and sees that
// it has none.
func notReady(t *scene, service, reason, says string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c := ready(t, service)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, says)
	}, waitFor, tick, "%s of %s; is %v", reason, service, ready(t, service))
	_, err := t.admin.CoreV1().Secrets("shop").Get(t.Context(), service+"-tls", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// issued waits until the Service has its certificate.
func issued(t *scene, service string) *corev1.Secret {
	t.Helper()
	require.Eventually(t, func() bool {
		c := ready(t, service)
		return c != nil && c.Status == metav1.ConditionTrue
	}, waitFor, tick, "certificate of %s; is %v", service, ready(t, service))
	secret, err := t.admin.CoreV1().Secrets("shop").Get(t.Context(), service+"-tls", metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}
