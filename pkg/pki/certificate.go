package pki

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Backdate is how far before its issuance a certificate's NotBefore lies, so
// that a client whose clock is a little behind accepts it.
const Backdate = 5 * time.Minute

// NotBefore returns the start of the validity of a certificate issued at now.
// Certificates count in whole seconds (RFC 5280, 4.1.2.5).
func NotBefore(now time.Time) time.Time { return now.Add(-Backdate).UTC().Truncate(time.Second) }

// IssuedAt returns when cert was issued; the inverse of NotBefore.
func IssuedAt(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(Backdate) }

// Lifetime returns how long cert is valid.
func Lifetime(cert *x509.Certificate) time.Duration { return cert.NotAfter.Sub(cert.NotBefore) }

// RenewAt returns when cert must be renewed, a pure function of its bytes:
//
//	min(NotBefore + lifetime × (0.7 + 0.2u), NotAfter − max(5 min, lifetime/10))
//
// where u in [0,1) is drawn from the SHA-256 of the certificate. Every process
// computes the same time, a restart moves none, and certificates issued at the
// same moment are renewed over a fifth of their lifetime.
func RenewAt(cert *x509.Certificate) time.Time {
	return RenewAtOf(sha256.Sum256(cert.Raw), cert.NotBefore, cert.NotAfter)
}

// RenewAtOf is RenewAt for a certificate with the given SHA-256 and validity.
func RenewAtOf(sum [sha256.Size]byte, notBefore, notAfter time.Time) time.Time {
	u := float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
	lifetime := notAfter.Sub(notBefore)
	byFraction := notBefore.Add(time.Duration(math.Round(float64(lifetime) * (0.7 + 0.2*u))))
	byRest := notAfter.Add(-max(5*time.Minute, lifetime/10))
	if byRest.Before(byFraction) {
		return byRest
	}
	return byFraction
}

// PodBackdate is Backdate for the certificate of a key that a kubelet made. It is less than the
// five minutes that the API server allows, because their clocks may differ.
const PodBackdate = 2 * time.Minute

// RefreshMargin is the shortest time between the start of a pod's certificate, its refresh and
// its end (ValidatePodCertificateRequestStatusUpdate of the API server).
const RefreshMargin = 10 * time.Minute

// RefreshAt returns when the kubelet should start to replace cert, whose key it made: RenewAt,
// at least RefreshMargin from both ends, in whole seconds.
func RefreshAt(cert *x509.Certificate) time.Time {
	at := RenewAt(cert)
	if first := cert.NotBefore.Add(RefreshMargin); at.Before(first) {
		at = first
	}
	if last := cert.NotAfter.Add(-RefreshMargin); at.After(last) {
		at = last
	}
	return at.Truncate(time.Second)
}

// Fingerprint returns the SHA-256 of the certificate's DER in hex, which identifies a
// leaf in conditions and metrics.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// EncodeCertificates returns the certificates in PEM, in the given order.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range certs {
		_ = pem.Encode(&out, &pem.Block{Type: pemCertificate, Bytes: c.Raw}) // a bytes.Buffer does not fail
	}
	return out.Bytes()
}

// ParseCertificates reads one or more certificates in PEM, of at most MaxCertificate bytes
// each and MaxCertificates bytes together, with RSA keys of at most MaxRSA bits. Anything else in
// data (another type of block, garbage that is not PEM) is an error: a server
// might fail to load such a file.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	return parseCertificates(data, MaxCertificates)
}

// parseCertificates is ParseCertificates for at most the given number of bytes.
func parseCertificates(data []byte, most int) ([]*x509.Certificate, error) {
	if err := checkSize(data, most); err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for rest := bytes.TrimSpace(data); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		if !bytes.HasPrefix(rest, []byte(pemBegin)) {
			return nil, fmt.Errorf("certificate %d: not PEM", len(certs)+1)
		}
		block, after := pem.Decode(rest)
		if block == nil || !beginsWithBlock(rest, after) {
			return nil, fmt.Errorf("certificate %d: damaged PEM", len(certs)+1)
		}
		rest = after
		if block.Type != pemCertificate {
			return nil, fmt.Errorf("certificate %d: PEM block is a %q, must be a %q", len(certs)+1, block.Type, pemCertificate)
		}
		if len(block.Headers) > 0 {
			return nil, fmt.Errorf("certificate %d: PEM headers are not allowed", len(certs)+1)
		}
		if err := checkSize(block.Bytes, MaxCertificate); err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		if key, ok := cert.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > MaxRSA {
			return nil, fmt.Errorf("certificate %d: RSA key of %d bits: must be at most %d", len(certs)+1, key.N.BitLen(), MaxRSA)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate")
	}
	return certs, nil
}

const pemBegin = "-----BEGIN "

// beginsWithBlock reports whether the part of the data before rest, which pem.Decode consumed, is one block after
// white space. pem.Decode skips text before a block, and damaged blocks: a program may refuse the file for either.
func beginsWithBlock(data, rest []byte) bool {
	taken := bytes.TrimSpace(data[:len(data)-len(rest)])
	return bytes.HasPrefix(taken, []byte(pemBegin)) && bytes.Count(taken, []byte(pemBegin)) == 1
}

// CertificateBlocks returns the certificates of a file as servers read it: they skip text, as openssl
// pkcs12 writes it, and other PEM blocks, such as the key in a file for HAProxy. Data that are
// damaged, that have no certificate or more than MaxCertificates bytes, are returned as they are.
func CertificateBlocks(data []byte) []byte {
	return blocksOf(data, func(kind string) bool { return kind == pemCertificate })
}

// FirstCertificate returns the DER of the first certificate in a file that servers may read, although
// Go does not. It returns nil if there is none, or the data have more than MaxCertificates bytes.
func FirstCertificate(data []byte) []byte {
	if len(data) > MaxCertificates {
		return nil
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != pemCertificate {
			continue
		}
		var cert struct{ TBS, Algorithm, Signature asn1.RawValue }
		if rest, err := asn1.Unmarshal(block.Bytes, &cert); err != nil || len(rest) > 0 || len(block.Bytes) > MaxCertificate {
			return nil
		}
		return block.Bytes
	}
	return nil
}

// KeyBlock is CertificateBlocks for the private key of a file, the first if there are several.
func KeyBlock(data []byte) []byte {
	found := false
	return blocksOf(data, func(kind string) bool {
		first := !found && strings.HasSuffix(kind, pemPrivateKey)
		found = found || first
		return first
	})
}

func blocksOf(data []byte, wanted func(kind string) bool) []byte {
	if len(data) > MaxCertificates {
		return data
	}
	var out []byte
	blocks := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if blocks++; !wanted(block.Type) {
			continue
		}
		if len(block.Headers) > 0 {
			return data // no parser accepts them
		}
		out = append(out, pem.EncodeToMemory(block)...)
	}
	if len(out) == 0 || blocks != bytes.Count(data, []byte(pemBegin)) {
		return data
	}
	return out
}

// SelfIssued reports whether the certificate names itself as its issuer, as roots do (RFC 5280, 3.2). It
// verifies no signature.
func SelfIssued(cert *x509.Certificate) bool { return bytes.Equal(cert.RawIssuer, cert.RawSubject) }

// WithinValidity returns the time in the certificate's validity that is nearest to at, to verify a chain
// although its leaf has expired.
func WithinValidity(cert *x509.Certificate, at time.Time) time.Time {
	switch {
	case at.Before(cert.NotBefore):
		return cert.NotBefore
	case at.After(cert.NotAfter):
		return cert.NotAfter
	}
	return at
}

// VerifyServing returns an error unless a client that trusts only root and receives leaf
// and chain accepts leaf as a server's certificate at now.
func VerifyServing(leaf *x509.Certificate, chain []*x509.Certificate, root *x509.Certificate, now time.Time) error {
	_, err := verify(leaf, PoolOf(chain), PoolOf([]*x509.Certificate{root}), x509.ExtKeyUsageServerAuth, now)
	return err
}

// VerifyClient is VerifyServing for a server that receives a client's certificate.
func VerifyClient(leaf *x509.Certificate, chain []*x509.Certificate, root *x509.Certificate, now time.Time) error {
	_, err := verify(leaf, PoolOf(chain), PoolOf([]*x509.Certificate{root}), x509.ExtKeyUsageClientAuth, now)
	return err
}

// VerifiedUntil returns an error unless a client that trusts all of the roots accepts leaf as a server's
// certificate at now, and until when it does so if nothing is renewed. It verifies at most 100
// signatures (x509.Certificate.Verify).
func VerifiedUntil(leaf *x509.Certificate, chain, roots []*x509.Certificate, now time.Time) (until time.Time, err error) {
	chains, err := verify(leaf, PoolOf(chain), PoolOf(roots), x509.ExtKeyUsageServerAuth, now)
	return longest(chains).Until, err
}

func verify(leaf *x509.Certificate, chain, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) ([][]*x509.Certificate, error) {
	return leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: chain, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
}

// PoolOf returns a pool of the certificates.
func PoolOf(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}
