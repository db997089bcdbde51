package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
)

// NewCSR returns a certificate signing request (RFC 2986) in DER that contains only the key and
// is signed with it.
func NewCSR(key crypto.Signer) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}
