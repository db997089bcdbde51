package requests

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// What the API server refuses itself never comes to the signer.
func TestWhatTheAPIServerRefuses(t *testing.T) {
	t.Run("CertificateSigningRequest", csrsThatAreRefused)
	t.Run("PodCertificateRequest", podRequestsThatAreRefused)
}

func csrsThatAreRefused(t *testing.T) {
	ns := newNamespace(t, true)
	pod := tokenOf(t, ns, newPod(t, ns, "web-1", "web"))
	good := pkcs10(t, newKey(t), []string{"web." + ns + ".svc"})
	short := int32(599)
	for name, o := range map[string]*certificatesv1.CertificateSigningRequest{
		"a signature of another key": requestFor(otherSignature(t, []string{"web." + ns + ".svc"})),
		"an unknown usage": requestFor(good, func(o *certificatesv1.CertificateSigningRequest) {
			o.Spec.Usages = append(o.Spec.Usages, "fly")
		}),
		"a short lifetime": requestFor(good, func(o *certificatesv1.CertificateSigningRequest) { o.Spec.ExpirationSeconds = &short }),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pod.CertificatesV1().CertificateSigningRequests().Create(t.Context(), o, metav1.CreateOptions{})
			assert.True(t, apierrors.IsInvalid(err), "%v", err)
		})
	}
}

// otherSignature is a request whose signature another key made.
func otherSignature(t *testing.T, names []string) []byte {
	t.Helper()
	var parts [2][]byte
	for i := range parts {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, newKey(t))
		require.NoError(t, err)
		parts[i] = der
	}
	der, err := harness.SignedByAnother(parts[0], parts[1])
	require.NoError(t, err)
	return encode(der)
}

// podRequestsThatAreRefused are what a kubelet may not ask for.
func podRequestsThatAreRefused(t *testing.T) {
	needsPodCertificates(t)
	ns, other := newNamespace(t, true), newNamespace(t, true)
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	elsewhere := runningPod(t, ns, "web", func(p *corev1.Pod) { p.Spec.NodeName = "node-2" })
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	good := requestOf(t, pod, k)
	isKnown(t, requestOf(t, runningPod(t, ns, "web"), k))
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("n%d.web.%s.svc", i, ns)
	}
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
		"a weak key": {func(r *certificatesv1.PodCertificateRequest) { r.Spec.StubPKCS10Request = stubOf(t, weak) }, "RSA keys must have modulus size 3072 or 4096"},
		"1000 names": {func(r *certificatesv1.PodCertificateRequest) {
			r.Spec.StubPKCS10Request = stubOf(t, k.Signer, func(r *x509.CertificateRequest) { r.DNSNames = many })
		}, "may not be more than"},
		"1 MB": {func(r *certificatesv1.PodCertificateRequest) { r.Spec.StubPKCS10Request = make([]byte, 1<<20) }, "may not be more than"},
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
