// Package issue has a CA sign certificates: for a key that it makes, or for one that somebody else holds.
// The CA is behind [Sign], and nothing leaves that was not checked to be exactly what was asked for.
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

// SigningRequest is what a CA is asked to sign. The CSR proves possession of
// the key and carries nothing else that counts: names and times are those here.
type SigningRequest struct {
	CSR []byte // PEM
	// CommonName is the subject, one of DNSNames; empty for none.
	CommonName   string
	DNSNames     []string
	IPs          []netip.Addr
	KeyAlgorithm pki.KeyAlgorithm
	NotBefore    time.Time
	NotAfter     time.Time
	// Tenant is who asks, for a CA at which there is room for so many.
	Tenant string
}

// Sign is the seam behind which a CA lives: it returns the leaf for a request,
// signed by ca. Whatever it returns is checked before anyone sees it.
type Sign func(ctx context.Context, ca *pki.Authority, request SigningRequest) (*x509.Certificate, error)

// Issued is a new key and the certificate for it.
type Issued struct {
	Leaf    *x509.Certificate
	CertPEM []byte // the leaf, and what is served after it
	KeyPEM  []byte // PKCS #8; nil if somebody else holds the key
	// RenewedAfter is what is to be recorded with it; see
	// api.AnnotationRenewedAfter. Zero: nothing.
	RenewedAfter time.Time
	// Stored, if not nil, is called once the certificate and its key are written: it ends
	// what a CA keeps of the request until then.
	Stored func(context.Context)
}

// Pair is the certificate and its key, and the password for files of it.
func (i *Issued) Pair(password string) formats.Pair {
	return formats.Pair{Cert: i.CertPEM, Key: i.KeyPEM, Password: password}
}

// RefusedError is a certificate that was signed and then found to be other than
// what was requested. Trying again with the same request gives the same answer.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// Reason is the condition's.
func (e *RefusedError) Reason() string { return string(ReasonRefused) }

// PendingError is a CA that was asked and has not answered yet. It is no failure.
type PendingError struct {
	Since   time.Time     // when it was asked
	Again   time.Duration // when to look again
	Message string        // the same as long as it waits for the same
}

func (e *PendingError) Error() string { return e.Message }

// Reason is the condition's.
func (e *PendingError) Reason() string { return string(ReasonPending) }

// quiet is how long a CA may take before it is worth a word.
const quiet = 10 * time.Second

// Quiet reports whether the CA has been asked a moment ago.
func (e *PendingError) Quiet(now time.Time) bool { return now.Sub(e.Since) < quiet }

// Waiting returns the PendingError that err is, or nil.
func Waiting(err error) *PendingError {
	pending, _ := errors.AsType[*PendingError](err)
	return pending
}

// Reason says in one word why a CA has not signed, as a condition does. Errors give it by a method
// Reason() string.
type Reason string

// Reasons of errors. All but the first are of a remote CA.
const (
	ReasonRefused     Reason = "SigningRefused"  // False: what the CA signed is not what was requested
	ReasonPending     Reason = "SigningPending"  // False: the CA was asked, and has not answered yet
	ReasonUnreachable Reason = "CAUnreachable"   // False: no server answers
	ReasonCARefused   Reason = "CARefused"       // False: a server refuses to sign
	ReasonCAAnswer    Reason = "CAAnswerInvalid" // False: a server's answer is not a certificate
	ReasonCAChanged   Reason = "CAChanged"       // False: a server signs with another CA than the one that clients trust
	ReasonCAUntrusted Reason = "CAUntrusted"     // False: the CA's certificate leads to no root that clients could be given
)

// NewRequest returns what is asked of ca at now for what is wanted, without a CSR.
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

// Issue makes a new key and has ca sign a certificate for it. Errors are a
// *RefusedError, or one of sign or of the source of randomness.
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

// ForKey has ca sign the request for a key that was made here. Errors are as those of Issue.
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

// Certify has ca sign a certificate for the key pub, whose private half somebody else
// may hold, and checks what it signed (invariant 2). The CSR of the request must be made
// with that key. Errors are as those of Issue.
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
	if n := len(issued.CertPEM); n > pki.MaxCertificates { // it could not be read back
		return Issued{}, &RefusedError{fmt.Errorf("the certificate and its chain have %d bytes: must be at most %d", n, pki.MaxCertificates)}
	}
	return issued, nil
}

// EndOf is when a certificate ends that starts at notBefore and is to live for
// duration: no later than its CA, which cfssl would let it.
func EndOf(notBefore time.Time, duration time.Duration, ca *x509.Certificate) time.Time {
	end := notBefore.Add(duration)
	if end.After(ca.NotAfter) {
		return ca.NotAfter
	}
	return end
}

// EndUnder returns when a certificate that the CA signs for a request ends: at the earliest
// of the given times, and no later than the CA and what it may sign.
func EndUnder(ca *pki.Authority, ends ...time.Time) time.Time {
	return slices.MinFunc(append(ends, ca.Certificate.NotAfter, ca.SignUntil.Truncate(time.Second)), time.Time.Compare)
}
