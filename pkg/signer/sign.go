package signer

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// SigningRequest is what a CA is asked to sign. The CSR proves possession of
// the key and carries nothing else that counts: names and times are those here.
type SigningRequest struct {
	CSR          []byte // PEM
	DNSNames     []string
	IPs          []netip.Addr
	KeyAlgorithm pki.KeyAlgorithm
	NotBefore    time.Time
	NotAfter     time.Time
}

// Sign is the seam behind which a CA lives: it returns the leaf for a request,
// signed by ca. Whatever it returns is checked before anyone sees it.
type Sign func(ctx context.Context, ca *pki.Authority, request SigningRequest) (*x509.Certificate, error)

// Issued is a new key and the certificate for it.
type Issued struct {
	Leaf    *x509.Certificate
	CertPEM []byte // the leaf, and what is served after it
	KeyPEM  []byte // PKCS #8
	// RenewedAfter is what is to be recorded with it; see
	// api.AnnotationRenewedAfter. Zero: nothing.
	RenewedAfter time.Time
}

// RefusedError is a certificate that was signed and then found to be other than
// what was requested. Trying again with the same request gives the same answer.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// Reason is the condition's.
func (e *RefusedError) Reason() string { return string(ReasonRefused) }

// Issue makes a new key and has ca sign a certificate for it. Errors are a
// *RefusedError, or one of sign or of the source of randomness.
func Issue(ctx context.Context, sign Sign, ca *pki.Authority, wanted api.Wanted, now time.Time) (Issued, error) {
	notBefore := pki.NotBefore(now)
	request := SigningRequest{
		DNSNames:     wanted.DNSNames,
		IPs:          wanted.IPs,
		KeyAlgorithm: wanted.Params.KeyAlgorithm,
		NotBefore:    notBefore,
		NotAfter:     endOf(notBefore, wanted.Params.Duration, ca.Certificate),
	}
	if request.NotAfter.After(ca.SignUntil) {
		return Issued{}, fmt.Errorf("the CA signs nothing that expires after %s, and a certificate of %s would expire later", ca.SignUntil.Format(time.RFC3339), wanted.Params.Duration)
	}
	key, err := pki.GenerateKey(request.KeyAlgorithm)
	if err != nil {
		return Issued{}, fmt.Errorf("generate key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return Issued{}, fmt.Errorf("create certificate request: %w", err)
	}
	request.CSR = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})

	leaf, err := sign(ctx, ca, request)
	if err != nil {
		return Issued{}, fmt.Errorf("sign: %w", err)
	}
	if err := checkIssued(leaf, key.Public(), ca, request, now); err != nil {
		return Issued{}, &RefusedError{fmt.Errorf("the signed certificate is not what was requested: %w", err)}
	}
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		return Issued{}, err
	}
	issued := Issued{
		Leaf:    leaf,
		CertPEM: pki.EncodeCertificates(append([]*x509.Certificate{leaf}, ca.Chain...)...),
		KeyPEM:  keyPEM,
	}
	if n := len(issued.CertPEM); n > pki.MaxCertificates { // it could not be read back
		return Issued{}, &RefusedError{fmt.Errorf("the certificate and its chain have %d bytes: must be at most %d", n, pki.MaxCertificates)}
	}
	if ca.Key == nil && !wanted.RenewAfter.After(now) {
		issued.RenewedAfter = wanted.RenewAfter
	}
	return issued, nil
}

// endOf is when a certificate ends that starts at notBefore and is to live for
// duration: no later than its CA, which cfssl would let it.
func endOf(notBefore time.Time, duration time.Duration, ca *x509.Certificate) time.Time {
	end := notBefore.Add(duration)
	if end.After(ca.NotAfter) {
		return ca.NotAfter
	}
	return end
}
