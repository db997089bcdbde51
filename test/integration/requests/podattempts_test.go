package requests

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	unknown := asn1.ObjectIdentifier{1, 2, 3}
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	request := requestOf(t, pod, k)
	request.Spec.StubPKCS10Request = stubOf(t, k.Signer, func(r *x509.CertificateRequest) {
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
