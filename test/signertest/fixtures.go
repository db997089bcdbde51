// Package signertest holds what the tests of the signer's packages start from:
// CAs of one generation and of several, a CA that signs whatever it is asked to,
// and Services.
package signertest

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Epoch is the time of most tests. It is not a whole second, as a clock's is not.
var Epoch = time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)

// Day is 24 hours.
const Day = 24 * time.Hour

// ClusterNames is what a CA permits by default.
var ClusterNames = pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}

// NewCA returns the Authority of a CA of one generation.
func NewCA(t require.TestingT, constraints pki.Constraints, notBefore, notAfter time.Time) *pki.Authority {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, constraints, notBefore, notAfter)
	require.NoError(t, err)
	return &pki.Authority{Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: root.NotAfter}
}

// CA returns a CA of one generation that is valid at Epoch.
func CA(t require.TestingT) *pki.Authority {
	return NewCA(t, ClusterNames, Epoch.Add(-Day), Epoch.Add(1000*Day))
}

// Forge returns a CA with the subject and the key id of the given one, and
// another key.
func Forge(t require.TestingT, ca *pki.Authority) *pki.Authority {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := *ca.Certificate
	template.PublicKey = key.Public()
	root := Certify(t, &template, &template, key.Public(), key)
	require.Equal(t, ca.Certificate.SubjectKeyId, root.SubjectKeyId)
	return &pki.Authority{Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: root.NotAfter}
}

// Request is an issue.SigningRequest: this package cannot import pkg/signer/issue, whose
// own tests import this one.
type Request struct {
	CSR          []byte
	CommonName   string
	DNSNames     []string
	IPs          []netip.Addr
	Identity     pki.SPIFFEID
	KeyAlgorithm pki.KeyAlgorithm
	NotBefore    time.Time
	NotAfter     time.Time
	Tenant       string
}

// Change makes the template of a certificate, or the CA that signs it, other than
// what was requested.
type Change = func(template *x509.Certificate, ca *pki.Authority)

// Sign signs with crypto/x509 alone what the request asks for, changed by the
// given functions: a CA that does as it likes.
func Sign(ca *pki.Authority, request Request, change ...Change) (*x509.Certificate, error) {
	block, _ := pem.Decode(request.CSR)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	serial, err := pki.NewSerial()
	if err != nil {
		return nil, err
	}
	usage := x509.KeyUsageDigitalSignature
	if request.KeyAlgorithm.IsRSA() {
		usage |= x509.KeyUsageKeyEncipherment
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		PublicKey:             csr.PublicKey,
		Subject:               pkix.Name{CommonName: request.CommonName},
		DNSNames:              slices.Clone(request.DNSNames),
		NotBefore:             request.NotBefore,
		NotAfter:              request.NotAfter,
		KeyUsage:              usage,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, ip := range request.IPs {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
	}
	if request.Identity != (pki.SPIFFEID{}) {
		uri, err := url.Parse(request.Identity.String())
		if err != nil {
			return nil, err
		}
		template.URIs, template.ExtKeyUsage = []*url.URL{uri}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	signing := *ca
	for _, f := range change {
		f(template, &signing)
	}
	if template.SubjectKeyId == nil {
		id, err := keyID(template.PublicKey)
		if err != nil {
			return nil, err
		}
		template.ExtraExtensions = append(template.ExtraExtensions, id)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signing.Certificate, template.PublicKey, signing.Key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Certify returns a certificate for a public key, signed by the parent's key.
func Certify(t require.TestingT, template, parent *x509.Certificate, public crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// CSR returns a PKCS #10 request in DER, changed.
func CSR(t require.TestingT, key crypto.Signer, change ...func(*x509.CertificateRequest)) []byte {
	template := &x509.CertificateRequest{}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return der
}

// Key returns a new key.
func Key(t require.TestingT, algorithm pki.KeyAlgorithm) crypto.Signer {
	key, err := pki.GenerateKey(algorithm)
	require.NoError(t, err)
	return key
}

// keyID identifies the key, after the other extensions, where the signer has it.
func keyID(pub crypto.PublicKey) (pkix.Extension, error) {
	id, err := pki.KeyID(pub)
	if err != nil {
		return pkix.Extension{}, err
	}
	value, err := asn1.Marshal(id)
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 14}, Value: value}, err
}

// WantedBy returns what the Services ask for together.
func WantedBy(services ...*corev1.Service) api.Wanted {
	wanted, _, _ := api.Merge(services, api.DefaultLimits())
	return wanted
}

// Service returns a Service of namespace shop that asks for Secret web-tls,
// unless annotations (key, value, …) say otherwise; "-" takes one away.
func Service(name string, annotations ...string) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(Epoch.Add(-10 * Day)),
			Annotations:       map[string]string{api.AnnotationSecretName: "web-tls"},
		},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, Selector: map[string]string{"app": name}},
	}
	for pair := range slices.Chunk(annotations, 2) {
		if pair[1] == "-" {
			delete(svc.Annotations, pair[0])
		} else {
			svc.Annotations[pair[0]] = pair[1]
		}
	}
	return svc
}
