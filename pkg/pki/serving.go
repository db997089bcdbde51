package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// CheckUsages returns an error if an extension of the leaf, whose key has the algorithm, is not that of a
// serving certificate.
func CheckUsages(leaf *x509.Certificate, algorithm KeyAlgorithm) error {
	usage := x509.KeyUsageDigitalSignature
	if algorithm.IsRSA() {
		usage |= x509.KeyUsageKeyEncipherment
	}
	switch {
	case leaf.IsCA:
		return errors.New("it is a CA certificate")
	case leaf.KeyUsage != usage:
		return fmt.Errorf("its key usage is %#x, must be %#x", int(leaf.KeyUsage), int(usage))
	case !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || len(leaf.UnknownExtKeyUsage) > 0:
		const shown = 8
		return fmt.Errorf("its extended key usages are %v %v, must be serverAuth only", leaf.ExtKeyUsage[:min(len(leaf.ExtKeyUsage), shown)], leaf.UnknownExtKeyUsage[:min(len(leaf.UnknownExtKeyUsage), shown)])
	}
	return CheckKindsOfNames(leaf.Extensions)
}

// The kinds of names, as RFC 5280, 4.2.1.6 numbers them.
var kindsOfNames = []string{"otherName", "rfc822Name", "dNSName", "x400Address", "directoryName", "ediPartyName", "uniformResourceIdentifier", "iPAddress", "registeredID"}

// CheckKindsOfNames returns an error if a subject alternative name in the extensions is
// neither a DNS name nor an IP address. It parses the extension itself, because
// crypto/x509 ignores most other kinds.
func CheckKindsOfNames(extensions []pkix.Extension) error {
	for _, extension := range extensions {
		if !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) { // subjectAltName
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
			return errors.New("its subject alternative names are malformed")
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

// NamesOf returns the names of a leaf, DNS names and addresses, each sorted.
func NamesOf(leaf *x509.Certificate) (dns []string, ips []netip.Addr) {
	dns = slices.Clone(leaf.DNSNames)
	slices.Sort(dns)
	for _, ip := range leaf.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			ips = append(ips, a.Unmap())
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return dns, ips
}
