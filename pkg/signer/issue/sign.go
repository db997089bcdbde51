// Package issue has a CA sign certificates, for a key that it generates or for one that another party holds.
// The CA is behind [Sign]. Every signed certificate is checked to be exactly the requested one.
package issue

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// SigningRequest is a request to a CA. The CSR only proves possession of the key: the
// names and times are those of the SigningRequest.
type SigningRequest struct {
	CSR []byte // PEM
	// CommonName is the subject, one of DNSNames; empty for none.
	CommonName string
	DNSNames   []string
	IPs        []netip.Addr
	// Identity makes it a request for a client's certificate, which has no other name.
	Identity     pki.SPIFFEID
	KeyAlgorithm pki.KeyAlgorithm
	NotBefore    time.Time
	NotAfter     time.Time
	// Tenant is the requester, for a CA with a limit of pending requests.
	Tenant string
}

// Sign returns the leaf for a request, signed by ca. It is the interface to every kind of CA.
// Callers check the leaf before they use it.
type Sign func(ctx context.Context, ca *pki.Authority, request SigningRequest) (*x509.Certificate, error)

// Issued is a new key and the certificate for it.
type Issued struct {
	Leaf    *x509.Certificate
	CertPEM []byte // the leaf and its chain
	KeyPEM  []byte // PKCS #8; nil if another party holds the key
	// RenewedAfter is the time to record in api.AnnotationRenewedAfter, or zero.
	RenewedAfter time.Time
	// Stored, if not nil, is called once the certificate and its key are written. It releases
	// what the CA has stored for the request.
	Stored func(context.Context)
}

// Pair returns the certificate and its key, with the password for files made of them.
func (i *Issued) Pair(password string) formats.Pair {
	return formats.Pair{Cert: i.CertPEM, Key: i.KeyPEM, Password: password}
}

// RefusedError reports that a signed certificate is not the requested one. The same
// request would have the same result.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// Reason returns the condition's reason.
func (e *RefusedError) Reason() string { return string(ReasonRefused) }

// PendingError reports that a CA has not answered a request yet. It is not a failure.
type PendingError struct {
	Since   time.Time     // when the request was sent
	Again   time.Duration // when to check again
	Message string        // unchanged while the request waits for the same
}

func (e *PendingError) Error() string { return e.Message }

// Reason returns the condition's reason.
func (e *PendingError) Reason() string { return string(ReasonPending) }

// quiet is the time after which a pending request is reported.
const quiet = 10 * time.Second

// Quiet reports whether the request is too recent to be reported.
func (e *PendingError) Quiet(now time.Time) bool { return now.Sub(e.Since) < quiet }

// Waiting returns the PendingError in err, or nil.
func Waiting(err error) *PendingError {
	pending, _ := errors.AsType[*PendingError](err)
	return pending
}

// Reason is the reason of a condition that reports why a CA has not signed. Errors have it in a
// method Reason() string.
type Reason string

// Reasons of errors. All but the first are for remote CAs.
const (
	ReasonRefused     Reason = "SigningRefused"  // False: what the CA signed is not what was requested
	ReasonPending     Reason = "SigningPending"  // False: the CA has not answered the request yet
	ReasonUnreachable Reason = "CAUnreachable"   // False: no server answers
	ReasonCARefused   Reason = "CARefused"       // False: a server refuses to sign
	ReasonCAAnswer    Reason = "CAAnswerInvalid" // False: a server's answer is not a certificate
	ReasonCAChanged   Reason = "CAChanged"       // False: a server signs with another CA than the one that clients trust
	ReasonCAUntrusted Reason = "CAUntrusted"     // False: no known root verifies the CA's certificate
)

// NewRequest returns the request to ca for a wanted certificate, without a CSR.
func NewRequest(ca *pki.Authority, wanted api.Wanted, now time.Time) SigningRequest {
	notBefore := pki.NotBefore(now)
	return SigningRequest{
		DNSNames:     wanted.DNSNames,
		IPs:          wanted.IPs,
		KeyAlgorithm: wanted.Params.KeyAlgorithm,
		NotBefore:    notBefore,
		NotAfter:     EndOf(notBefore, wanted.Params.Duration, ca.Certificate),
	}
}

// Issue generates a key and has ca sign a certificate for it. Errors are a
// *RefusedError, or those of sign and of the source of randomness.
func Issue(ctx context.Context, sign Sign, ca *pki.Authority, wanted api.Wanted, now time.Time) (Issued, error) {
	request := NewRequest(ca, wanted, now)
	if err := ca.MaySign(request.NotAfter); err != nil {
		return Issued{}, err
	}
	key, err := pki.GenerateKey(request.KeyAlgorithm)
	if err != nil {
		return Issued{}, fmt.Errorf("generate key: %w", err)
	}
	der, err := pki.NewCSR(key)
	if err != nil {
		return Issued{}, fmt.Errorf("create certificate request: %w", err)
	}
	request.CSR = EncodeCSR(der)
	return ForKey(ctx, sign, ca, key, request, wanted, now)
}

// ForKey has ca sign the request for a key of this process. Errors are those of Issue.
func ForKey(ctx context.Context, sign Sign, ca *pki.Authority, key crypto.Signer, request SigningRequest, wanted api.Wanted, now time.Time) (Issued, error) {
	keyPEM, err := pki.EncodeKey(key)
	if err != nil {
		return Issued{}, err
	}
	issued, err := Certify(ctx, sign, ca, key.Public(), request, now)
	if err != nil {
		return Issued{}, err
	}
	issued.KeyPEM = keyPEM
	if ca.Key == nil && !wanted.RenewAfter.After(now) {
		issued.RenewedAfter = wanted.RenewAfter
	}
	return issued, nil
}

// EncodeCSR returns a certificate signing request in PEM.
func EncodeCSR(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// DecodeCSR parses a certificate signing request in PEM.
func DecodeCSR(csr []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(csr)
	if block == nil {
		return nil, errors.New("the CSR is not PEM")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse CSR: %w", err)
	}
	return parsed, nil
}

// Certify has ca sign a certificate for the public key pub, and checks it (invariant 2). The
// CSR of the request must be for that key; another party may hold the private key. Errors
// are those of Issue.
func Certify(ctx context.Context, sign Sign, ca *pki.Authority, pub crypto.PublicKey, request SigningRequest, now time.Time) (Issued, error) {
	if err := ca.MaySign(request.NotAfter); err != nil {
		return Issued{}, err
	}
	leaf, err := sign(ctx, ca, request)
	if err != nil {
		return Issued{}, fmt.Errorf("sign: %w", err)
	}
	if err := Check(leaf, pub, ca, request, now); err != nil {
		return Issued{}, &RefusedError{fmt.Errorf("the signed certificate is not what was requested: %w", err)}
	}
	issued := Issued{Leaf: leaf, CertPEM: pki.EncodeCertificates(append([]*x509.Certificate{leaf}, ca.Chain...)...)}
	if n := len(issued.CertPEM); n > pki.MaxCertificates { // pki.ParseCertificates would reject it
		return Issued{}, &RefusedError{fmt.Errorf("the certificate and its chain have %d bytes: must be at most %d", n, pki.MaxCertificates)}
	}
	return issued, nil
}

// EndOf returns the end of a certificate with the given start and lifetime, but no later than
// that of its CA: cfssl does not check that.
func EndOf(notBefore time.Time, duration time.Duration, ca *x509.Certificate) time.Time {
	end := notBefore.Add(duration)
	if end.After(ca.NotAfter) {
		return ca.NotAfter
	}
	return end
}

// EndUnder returns the earliest of the given times, the end of the CA, and the latest end that
// the CA may sign.
func EndUnder(ca *pki.Authority, ends ...time.Time) time.Time {
	return slices.MinFunc(append(ends, ca.Certificate.NotAfter, ca.SignUntil.Truncate(time.Second)), time.Time.Compare)
}
