package hosttest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// KubeletRequest is what a node asks for, to serve with.
type KubeletRequest struct {
	x509.CertificateRequest
	Key    crypto.Signer             // nil: a new one
	Usages []certificatesv1.KeyUsage // nil: those of a server
	// Reason is why the signer denies it.
	Reason string
}

// RequestOfNode is what the kubelet of a node asks for: its name, and these addresses.
func RequestOfNode(node string, addresses ...net.IP) KubeletRequest {
	return KubeletRequest{CertificateRequest: x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, IPAddresses: addresses,
	}}
}

// AnotherNodesName is the one of WrongRequests that an API server with NodeRestriction refuses itself.
const AnotherNodesName = "another node's name"

// WrongRequests are what no kubelet asks for, by what is wrong with them: the twelve that a stolen node
// may try with an address of its own. foreign is an address that the operator gave to no node.
func WrongRequests(tb testing.TB, node string, own, foreign net.IP) map[string]KubeletRequest {
	tb.Helper()
	isCA, err := asn1.Marshal(struct{ CA bool }{true})
	if err != nil {
		tb.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it is refused
	if err != nil {
		tb.Fatal(err)
	}
	wrong := func(reason string, change func(*KubeletRequest)) KubeletRequest {
		r := RequestOfNode(node, own)
		r.Reason = reason
		change(&r)
		return r
	}
	named := func(name string) func(*KubeletRequest) {
		return func(r *KubeletRequest) { r.DNSNames = []string{name} }
	}
	return map[string]KubeletRequest{
		AnotherNodesName:             wrong("InvalidSubject", func(r *KubeletRequest) { r.Subject.CommonName = "system:node:other" }),
		"more organizations":         wrong("InvalidSubject", func(r *KubeletRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} }),
		"the API server's ClusterIP": wrong("NameNotPermitted", func(r *KubeletRequest) { r.IPAddresses = []net.IP{foreign} }),
		"a Service's name":           wrong("NameNotPermitted", named("kubernetes.default.svc")),
		"localhost":                  wrong("NameNotPermitted", named("localhost")),
		"a wildcard":                 wrong("InvalidName", named("*.nodes.example.com")),
		"too many names": wrong("InvalidName", func(r *KubeletRequest) {
			for i := range byte(33) {
				r.IPAddresses = append(r.IPAddresses, net.IPv4(10, 0, 0, 100+i))
			}
		}),
		"a URI":            wrong("InvalidRequest", func(r *KubeletRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }),
		"an email address": wrong("InvalidRequest", func(r *KubeletRequest) { r.EmailAddresses = []string{"a@example.com"} }),
		"a CA": wrong("InvalidRequest", func(r *KubeletRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: isCA}}
		}),
		"a client's certificate": wrong("InvalidUsages", func(r *KubeletRequest) {
			r.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
		}),
		"a weak key": wrong("UnsupportedKeyType", func(r *KubeletRequest) { r.Key = weak }),
	}
}

// Object is the request as it is created.
func (r KubeletRequest) Object(tb testing.TB) *certificatesv1.CertificateSigningRequest {
	tb.Helper()
	if r.Key == nil {
		var err error
		if r.Key, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
			tb.Fatal(err)
		}
	}
	if r.Usages == nil {
		r.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &r.CertificateRequest, r.Key)
	if err != nil {
		tb.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Request: issue.EncodeCSR(der), Usages: r.Usages,
		},
	}
}
