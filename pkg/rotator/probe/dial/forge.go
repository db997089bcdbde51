package dial

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// A Forger makes client certificates that no CA has signed, to see them refused. Its key never leaves the process.
type Forger struct{ key crypto.Signer }

// NewForger returns a Forger with a key of its own.
func NewForger() (Forger, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return Forger{}, fmt.Errorf("make a key to forge certificates with: %w", err)
	}
	return Forger{key}, nil
}

// lifetime is from an hour before to an hour after now.
const lifetime = time.Hour

// Certificate returns a certificate for clients with the identity. It names the CA as its issuer, with the identifier of
// that CA's key, and all that is wrong with it is the signature. Without a CA, it is self-signed.
func (f Forger) Certificate(ca *x509.Certificate, id pki.SPIFFEID, now time.Time) (*tls.Certificate, error) {
	uri, err := url.Parse(id.String())
	if err != nil {
		return nil, fmt.Errorf("forge a certificate for %s: %w", id, err)
	}
	serial, err := pki.NewSerial()
	if err != nil {
		return nil, fmt.Errorf("forge a certificate: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-lifetime), NotAfter: now.Add(lifetime), URIs: []*url.URL{uri},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	issuer := leaf
	if ca != nil {
		issuer = &x509.Certificate{RawSubject: ca.RawSubject, Subject: ca.Subject, SubjectKeyId: ca.SubjectKeyId} // without its key, which is not the Forger's
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, issuer, f.key.Public(), f.key)
	if err != nil {
		return nil, fmt.Errorf("forge a certificate for %s: %w", id, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: f.key}, nil
}
