package requests

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// The kubelet gets a certificate for the names of the Services that select its pod, for as long as
// the signer allows.
func TestAPodGetsTheNamesOfItsServices(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t, "--pod-max-duration=2h")
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	newService(t, ns, "other")
	newService(t, ns, "plain", func(svc *corev1.Service) { svc.Annotations = nil })
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP384)
	leaf := podIssued(t, askForPod(t, requestOf(t, pod, k)), k)
	assert.ElementsMatch(t, []string{"web." + ns + ".svc", "web." + ns + ".svc.cluster.local"}, leaf.DNSNames)
	assert.Equal(t, 2*time.Hour, pki.Lifetime(leaf))

	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := api.Condition(svc, api.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue || !api.HasPodKeys(svc) {
			return fmt.Errorf("condition Ready is %v", ready)
		}
		return nil
	})
	secrets, err := admin.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, secrets.Items)
}

// What can never become right is denied, with the reason.
func TestWhatIsDenied(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, false)
	newService(t, ns, "web")
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	_, condition := podAnswerTo(t, askForPod(t, requestOf(t, pod, k)))
	assert.Equal(t, "Denied", condition.Type)
	assert.Equal(t, "NamespaceNotOptedIn", condition.Reason)
}

// What a request says beside its key counts for nothing: the names are those of the Services
// that select the pod.
func TestWhatARequestSaysOfItselfDoesNotCount(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns, other := newNamespace(t, true), newNamespace(t, true)
	newService(t, ns, "web")
	newService(t, ns, "api")
	newService(t, other, "web")
	isCA, err := asn1.Marshal(struct{ CA bool }{true})
	require.NoError(t, err)
	unknown := asn1.ObjectIdentifier{1, 2, 3}
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	request := requestOf(t, pod, k)
	request.Spec.StubPKCS10Request = signertest.CSR(t, k.Signer, func(r *x509.CertificateRequest) {
		r.DNSNames = []string{"api." + ns + ".svc", "web." + other + ".svc", "*." + ns + ".svc"}
		r.IPAddresses = []net.IP{{10, 0, 0, 1}}
		r.Subject.CommonName = "system:admin"
		r.ExtraExtensions = []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: isCA},
			{Id: unknown, Value: []byte{5, 0}},
		}
	})
	leaf := podIssued(t, askForPod(t, request), k)
	assert.ElementsMatch(t, []string{"web." + ns + ".svc", "web." + ns + ".svc.cluster.local"}, leaf.DNSNames)
	assert.Empty(t, leaf.IPAddresses)
	assert.Empty(t, leaf.Subject.String())
	assert.False(t, leaf.IsCA)
	for _, e := range leaf.Extensions {
		assert.False(t, e.Id.Equal(unknown))
	}
}

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
