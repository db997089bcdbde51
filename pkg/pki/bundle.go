package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Bundle is a set of CA certificates that a client trusts. Its bytes depend on
// its content alone: no duplicates, ordered by NotBefore and then by DER.
type Bundle struct{ certs []*x509.Certificate }

// NewBundle returns the bundle of the given certificates.
func NewBundle(certs ...*x509.Certificate) Bundle {
	certs = slices.Clone(certs)
	slices.SortFunc(certs, func(a, b *x509.Certificate) int {
		if c := a.NotBefore.Compare(b.NotBefore); c != 0 {
			return c
		}
		return bytes.Compare(a.Raw, b.Raw)
	})
	return Bundle{slices.CompactFunc(certs, (*x509.Certificate).Equal)}
}

// ParseBundle reads a bundle in PEM. An entry that is not a CA is an error.
func ParseBundle(data []byte) (Bundle, error) {
	certs, err := ParseCertificates(data)
	if err != nil {
		return Bundle{}, fmt.Errorf("CA bundle: %w", err)
	}
	for i, c := range certs {
		if !c.IsCA {
			return Bundle{}, fmt.Errorf("CA bundle: certificate %d (%s) is not a CA", i+1, c.Subject)
		}
	}
	return NewBundle(certs...), nil
}

// ParseRoots reads external roots in PEM, of at most the given number of bytes. As in
// [ParseCertificates], anything else in the data is an error, and so is a certificate that is not a
// CA, except of version 1, which has no such field.
func ParseRoots(data []byte, most int) (Bundle, error) {
	certs, err := parseCertificates(data, most)
	if err != nil {
		return Bundle{}, err
	}
	for i, c := range certs {
		if !c.IsCA && c.Version >= 3 {
			return Bundle{}, fmt.Errorf("certificate %d (%s) is not a CA", i+1, c.Subject)
		}
	}
	return NewBundle(certs...), nil
}

// Certificates returns the content, in order.
func (b Bundle) Certificates() []*x509.Certificate { return slices.Clone(b.certs) }

// Unexpired returns the bundle without the certificates that have expired at now.
func (b Bundle) Unexpired(now time.Time) Bundle {
	return Bundle{slices.DeleteFunc(b.Certificates(), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })}
}

// PEM returns the bundle's bytes; none for an empty bundle.
func (b Bundle) PEM() []byte { return EncodeCertificates(b.certs...) }

// Hash returns the SHA-256 of the bundle's PEM in hex, which identifies a bundle in the
// trust status.
func (b Bundle) Hash() string {
	sum := sha256.Sum256(b.PEM())
	return hex.EncodeToString(sum[:])
}
