package pki

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// NewCross makes the cross-certificate of root: its subject, key, extended key usages
// and name constraints, signed by the generation before (older with olderKey). A client
// that trusts only the older root verifies by it what root's key has signed.
//
// It ends with the one of the two roots that ends first, and has no path length:
// a chain of cross-certificates fails under any.
func NewCross(root, older *x509.Certificate, olderKey crypto.Signer, notBefore time.Time) (*x509.Certificate, error) {
	if !KeyMatches(older, olderKey) {
		return nil, errors.New("cross-certificate: the key is not that of the older CA")
	}
	if root.Subject.String() == older.Subject.String() {
		return nil, fmt.Errorf("cross-certificate: both CAs are called %q: with equal subjects verifiers pick the wrong issuer", root.Subject)
	}
	serial, err := NewSerial()
	if err != nil {
		return nil, err
	}
	notAfter := root.NotAfter
	if older.NotAfter.Before(notAfter) {
		notAfter = older.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		RawSubject:            root.RawSubject,
		NotBefore:             notBefore.UTC().Truncate(time.Second),
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		SubjectKeyId:          root.SubjectKeyId,
		ExtKeyUsage:           root.ExtKeyUsage,
		UnknownExtKeyUsage:    root.UnknownExtKeyUsage,

		PermittedDNSDomainsCritical: root.PermittedDNSDomainsCritical,
		PermittedDNSDomains:         root.PermittedDNSDomains,
		ExcludedDNSDomains:          root.ExcludedDNSDomains,
		PermittedIPRanges:           root.PermittedIPRanges,
		ExcludedIPRanges:            root.ExcludedIPRanges,
		PermittedEmailAddresses:     root.PermittedEmailAddresses,
		ExcludedEmailAddresses:      root.ExcludedEmailAddresses,
		PermittedURIDomains:         root.PermittedURIDomains,
		ExcludedURIDomains:          root.ExcludedURIDomains,
	}
	return createCA(template, older, root.PublicKey, olderKey)
}
