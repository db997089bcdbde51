package requests

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
)

// stubOf is a request in DER that says more than a kubelet's, which has the key alone.
func stubOf(t *testing.T, signer any, change ...func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, signer)
	require.NoError(t, err)
	return der
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
	for name, change := range map[string]func(*x509.CertificateRequest){
		"another Service":   func(r *x509.CertificateRequest) { r.DNSNames = []string{"api." + ns + ".svc"} },
		"another namespace": func(r *x509.CertificateRequest) { r.DNSNames = []string{"web." + other + ".svc"} },
		"a wildcard":        func(r *x509.CertificateRequest) { r.DNSNames = []string{"*." + ns + ".svc"} },
		"an IP address":     func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 0, 0, 1}} },
		"a CN":              func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:admin" },
		"100 names": func(r *x509.CertificateRequest) {
			for i := range 100 {
				r.DNSNames = append(r.DNSNames, fmt.Sprintf("n%d.%s.svc", i, ns))
			}
		},
		"CA:TRUE": func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: isCA}}
		},
		"an unknown extension": func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
			request := requestOf(t, pod, k)
			request.Spec.StubPKCS10Request = stubOf(t, k.Signer, change)
			leaf := podIssued(t, askForPod(t, request), k)
			assert.ElementsMatch(t, []string{"web." + ns + ".svc", "web." + ns + ".svc.cluster.local"}, leaf.DNSNames)
			assert.Empty(t, leaf.IPAddresses)
			assert.Empty(t, leaf.Subject.String())
			assert.False(t, leaf.IsCA)
			for _, e := range leaf.Extensions {
				assert.False(t, e.Id.Equal(asn1.ObjectIdentifier{1, 2, 3}))
			}
		})
	}
}

// Who is no node, and may make requests all the same, gets nothing for a pod that does not
// run as the request says.
func TestWrongPodsAreDenied(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	_, err := admin.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	for name, c := range map[string]struct {
		change func(r *certificatesv1.PodCertificateRequest)
		reason string
	}{
		"another node":           {func(r *certificatesv1.PodCertificateRequest) { r.Spec.NodeName = "node-2" }, "WrongPod"},
		"another ServiceAccount": {func(r *certificatesv1.PodCertificateRequest) { r.Spec.ServiceAccountName = "admin" }, "WrongPod"},
	} {
		t.Run(name, func(t *testing.T) {
			request := requestOf(t, pod, k)
			c.change(request)
			request, err := certificates.PodCertificateRequests(ns).Create(t.Context(), request, metav1.CreateOptions{})
			require.NoError(t, err)
			_, condition := podAnswerTo(t, request)
			assert.Equal(t, "Denied", condition.Type)
			assert.Equal(t, c.reason, condition.Reason, condition.Message)
		})
	}
}
