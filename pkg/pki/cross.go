package pki

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// NewCross creates the cross-certificate of root: its subject, key, extended key usages
// and name constraints, signed by the previous generation (older with olderKey). With it,
// a client that trusts only the older root verifies what root's key has signed.
//
// It expires with the first of the two roots, and has no path length, under which a chain
// of cross-certificates fails.
func NewCross(root, older *x509.Certificate, olderKey crypto.Signer, notBefore time.Time) (*x509.Certificate, error) {
	if !KeyMatches(older, olderKey) {
		return nil, errors.New("cross-certificate: the key is not that of the older CA")
	}
	if root.Subject.String() == older.Subject.String() {
		return nil, fmt.Errorf("cross-certificate: both CAs have the subject %q: with equal subjects verifiers pick the wrong issuer", root.Subject)
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
