package requests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// What a kubelet may not ask for is refused by the API server. It alone checks who asks, and the
// signature of a request.
func TestWhatTheAPIServerRefuses(t *testing.T) {
	needsPodCertificates(t)
	ns, other := newNamespace(t, true), newNamespace(t, true)
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	elsewhere := runningPod(t, ns, "web", func(p *corev1.Pod) { p.Spec.NodeName = "node-2" })
	good := requestOf(t, pod, k)
	isKnown(t, requestOf(t, runningPod(t, ns, "web"), k))
	for name, c := range map[string]struct {
		change func(r *certificatesv1.PodCertificateRequest)
		says   string
	}{
		"a pod of another node": {func(r *certificatesv1.PodCertificateRequest) {
			r.Spec.PodName, r.Spec.PodUID = elsewhere.Name, elsewhere.UID
		}, "is not running on node"},
		"as another node":            {func(r *certificatesv1.PodCertificateRequest) { r.Spec.NodeName = "node-2" }, "which is not the requesting node"},
		"another ServiceAccount":     {func(r *certificatesv1.PodCertificateRequest) { r.Spec.ServiceAccountName = "admin" }, "differs from running pod"},
		"a pod of that name again":   {func(r *certificatesv1.PodCertificateRequest) { r.Spec.PodUID = "0123" }, "which differs from running pod"},
		"a pod of another namespace": {func(r *certificatesv1.PodCertificateRequest) { r.Namespace = other }, "not found"},
		"a signature of another key": {func(r *certificatesv1.PodCertificateRequest) {
			r.Spec.StubPKCS10Request = otherStub(t)
		}, "invalid signature"},
	} {
		t.Run(name, func(t *testing.T) {
			request := good.DeepCopy()
			c.change(request)
			_, err := nodeCertificates.PodCertificateRequests(request.Namespace).Create(t.Context(), request, metav1.CreateOptions{})
			assert.ErrorContains(t, err, c.says)
		})
	}
}

// otherStub is a request whose signature another key made.
func otherStub(t *testing.T) []byte {
	t.Helper()
	der, err := harness.SignedByAnother(newPodKey(t, pki.ECDSAP256).csr, newPodKey(t, pki.ECDSAP256).csr)
	require.NoError(t, err)
	return der
}
