package signer

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
// what was asked for. Trying again with the same request gives the same answer.
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
		return Issued{}, fmt.Errorf("the CA has promised to sign until %s only, and the certificate would end at %s", ca.SignUntil.Format(time.RFC3339), request.NotAfter.Format(time.RFC3339))
	}
	key, err := pki.GenerateKey(request.KeyAlgorithm)
	if err != nil {
		return Issued{}, fmt.Errorf("generate key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return Issued{}, fmt.Errorf("make certificate request: %w", err)
	}
	request.CSR = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})

	leaf, err := sign(ctx, ca, request)
	if err != nil {
		return Issued{}, fmt.Errorf("sign: %w", err)
	}
	if err := checkIssued(leaf, key.Public(), ca, request, now); err != nil {
		return Issued{}, &RefusedError{fmt.Errorf("the signed certificate is not what was asked for: %w", err)}
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

// checkIssued says how the leaf differs from the request (invariant 2), or nil.
func checkIssued(leaf *x509.Certificate, pub crypto.PublicKey, ca *pki.Authority, request SigningRequest, now time.Time) error {
	key, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !ok || !key.Equal(pub):
		return errors.New("it is for another key")
	case !slices.Equal(sortedNames(leaf), request.DNSNames):
		return fmt.Errorf("its names are %q, and %q were asked for", leaf.DNSNames, request.DNSNames)
	case !slices.Equal(sortedIPs(leaf), request.IPs):
		return fmt.Errorf("its IP addresses are %v, and %v were asked for", leaf.IPAddresses, request.IPs)
	case leaf.Subject.CommonName != "" && !slices.Contains(request.DNSNames, leaf.Subject.CommonName):
		return fmt.Errorf("its subject names %q, and %q were asked for", leaf.Subject.CommonName, request.DNSNames)
	case leaf.NotAfter.After(request.NotAfter):
		return fmt.Errorf("it ends at %s, after the %s that was asked for", leaf.NotAfter.Format(time.RFC3339), request.NotAfter.Format(time.RFC3339))
	case leaf.NotBefore.After(now):
		return fmt.Errorf("it is not valid before %s", leaf.NotBefore.Format(time.RFC3339))
	case leaf.NotBefore.Before(request.NotBefore.Add(-maxBackdate)):
		return fmt.Errorf("it is valid from %s: a certificate may begin %s before it is issued at most", leaf.NotBefore.Format(time.RFC3339), maxBackdate+pki.Backdate)
	}
	if err := checkUsages(leaf, request.KeyAlgorithm); err != nil {
		return err
	}
	if err := checkVerifies(leaf, ca, now); err != nil {
		return err
	}
	return checkLasts(leaf, ca, now)
}

// checkVerifies says which client would reject the leaf, or nil.
func checkVerifies(leaf *x509.Certificate, ca *pki.Authority, now time.Time) error {
	if len(ca.Anchors) == 0 {
		return errors.New("no client can verify it: the CA has no root")
	}
	for _, root := range ca.Anchors {
		if err := pki.VerifyServing(leaf, ca.Chain, root, now); err != nil {
			return fmt.Errorf("a client that trusts only %q rejects it: %w", root.Subject.CommonName, err)
		}
	}
	return nil
}

// What a CA elsewhere may do other than it was asked. Beyond, certificates would
// be renewed all the time.
const (
	// maxBackdate is how much earlier than asked for a certificate may begin.
	maxBackdate = time.Hour + pki.Backdate
	// minLifetime and minUntilRenewal bound how short-lived one may be that does
	// not end with its CA.
	minLifetime     = 15 * time.Minute
	minUntilRenewal = time.Minute
)

// checkLasts says why the leaf would have to be replaced at once, or nil.
func checkLasts(leaf *x509.Certificate, ca *pki.Authority, now time.Time) error {
	lifetime := pki.Lifetime(leaf)
	switch {
	case !leaf.NotAfter.Before(ca.Certificate.NotAfter): // see isDue
		return nil
	case lifetime < minLifetime:
		return fmt.Errorf("it lives for %s, and must for %s at least", lifetime, minLifetime)
	case pki.RenewAt(leaf).Before(now.Add(minUntilRenewal)):
		return fmt.Errorf("it lives from %s to %s, and would be due for renewal at %s already: it must be valid for longer after it is issued, %s at least", leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339), pki.RenewAt(leaf).Format(time.RFC3339), minLifetime)
	}
	return nil
}

// checkUsages says which extension is not that of a serving certificate, or nil.
func checkUsages(leaf *x509.Certificate, algorithm pki.KeyAlgorithm) error {
	usage := x509.KeyUsageDigitalSignature
	if algorithm.IsRSA() {
		usage |= x509.KeyUsageKeyEncipherment
	}
	switch {
	case leaf.IsCA:
		return errors.New("it is a CA")
	case leaf.KeyUsage != usage:
		return fmt.Errorf("its key usage is %#x, must be %#x", int(leaf.KeyUsage), int(usage))
	case !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || len(leaf.UnknownExtKeyUsage) > 0:
		return fmt.Errorf("its extended key usages are %v %v, must be serverAuth alone", leaf.ExtKeyUsage, leaf.UnknownExtKeyUsage)
	}
	return checkKindsOfNames(leaf)
}

// The kinds of names, as RFC 5280, 4.2.1.6 numbers them.
var kindsOfNames = []string{"otherName", "rfc822Name", "dNSName", "x400Address", "directoryName", "ediPartyName", "uniformResourceIdentifier", "iPAddress", "registeredID"}

// checkKindsOfNames says which name is neither a DNS name nor an IP address, or
// nil. It reads the extension itself: crypto/x509 passes over most other kinds.
func checkKindsOfNames(leaf *x509.Certificate) error {
	for _, extension := range leaf.Extensions {
		if !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) { // subjectAltName
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
			return errors.New("its subject alternative names are no sequence of names")
		}
		for _, name := range names {
			if name.Class == asn1.ClassContextSpecific && (name.Tag == 2 || name.Tag == 7) {
				continue
			}
			kind := "of an unknown kind"
			if name.Class == asn1.ClassContextSpecific && name.Tag < len(kindsOfNames) {
				kind = kindsOfNames[name.Tag]
			}
			return fmt.Errorf("it has a name that is neither a DNS name nor an IP address: %s", kind)
		}
	}
	return nil
}

// ReasonOf returns the reason that an error gives by a method Reason() string, or
// otherwise if it gives none.
func ReasonOf(err error, otherwise Reason) Reason {
	var reasoned interface{ Reason() string }
	if errors.As(err, &reasoned) {
		return Reason(reasoned.Reason())
	}
	return otherwise
}

// Jitter returns between half of d and d, by chance in [0,1).
func Jitter(d time.Duration, chance float64) time.Duration {
	return d/2 + time.Duration(chance*float64(d/2))
}
