package cfsslserver

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// caLifetime is longer than any certificate that a test asks for.
const caLifetime = 5 * 365 * 24 * time.Hour

// CA is one that a server can sign with.
type CA struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
	// Above are the certificates between it and its root, and the root; empty for
	// a root.
	Above []*x509.Certificate
}

// NewCA returns a root that is constrained to the names of a cluster.
func NewCA(name string) (*CA, error) { return newCA(name, nil, constrained) }

// Below returns a CA that this one has signed.
func (c *CA) Below(name string) (*CA, error) { return newCA(name, c, constrained) }

func constrained(template *x509.Certificate) {
	template.PermittedDNSDomainsCritical = true
	template.PermittedDNSDomains = []string{"svc", "cluster.local"}
}

// newCA returns a CA under above, or a root if that is nil.
func newCA(name string, above *CA, change func(*x509.Certificate)) (*CA, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	change(template)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	out := &CA{Key: key}
	by := &CA{Certificate: template, Key: key}
	if above != nil {
		by = above
		out.Above = append([]*x509.Certificate{above.Certificate}, above.Above...)
	}
	out.Certificate, err = by.sign(template, key.Public())
	return out, err
}

// sign signs the template, for as long as tests need it and no longer than the CA.
func (c *CA) sign(template *x509.Certificate, pub crypto.PublicKey) (*x509.Certificate, error) {
	var err error
	if template.SerialNumber, err = pki.NewSerial(); err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(caLifetime)
	if c.Certificate != template {
		template.NotAfter = c.Certificate.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.Certificate, pub, c.Key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// writePair writes a certificate and its key, in PEM.
func writePair(certFile, keyFile string, cert *x509.Certificate, key crypto.Signer) error {
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(certFile, pki.EncodeCertificates(cert), 0o600); err != nil {
		return err
	}
	return os.WriteFile(keyFile, keyPEM, 0o600)
}
