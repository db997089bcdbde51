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
	if err := checkUsages(leaf, algorithm, x509.ExtKeyUsageServerAuth, "serverAuth"); err != nil {
		return err
	}
	return CheckKindsOfNames(leaf.Extensions)
}

// checkUsages returns an error if the usages of the leaf are not exactly those for the extended one.
func checkUsages(leaf *x509.Certificate, algorithm KeyAlgorithm, extended x509.ExtKeyUsage, name string) error {
	usage := x509.KeyUsageDigitalSignature
	if algorithm.IsRSA() {
		usage |= x509.KeyUsageKeyEncipherment
	}
	switch {
	case leaf.IsCA:
		return errors.New("it is a CA certificate")
	case leaf.KeyUsage != usage:
		return fmt.Errorf("its key usage is %#x, must be %#x", int(leaf.KeyUsage), int(usage))
	case !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{extended}) || len(leaf.UnknownExtKeyUsage) > 0:
		const shown = 8
		return fmt.Errorf("its extended key usages are %v %v, must be %s only", leaf.ExtKeyUsage[:min(len(leaf.ExtKeyUsage), shown)], leaf.UnknownExtKeyUsage[:min(len(leaf.UnknownExtKeyUsage), shown)], name)
	}
	return nil
}

// The kinds of names, as RFC 5280, 4.2.1.6 numbers them.
const (
	tagDNS = 2
	tagURI = 6
	tagIP  = 7
)

var kindsOfNames = []string{"otherName", "rfc822Name", "dNSName", "x400Address", "directoryName", "ediPartyName", "uniformResourceIdentifier", "iPAddress", "registeredID"}

// CheckKindsOfNames returns an error if a subject alternative name in the extensions is
// neither a DNS name nor an IP address. It parses the extension itself, because
// crypto/x509 ignores most other kinds.
func CheckKindsOfNames(extensions []pkix.Extension) error {
	return checkKindsOfNames(extensions, []int{tagDNS, tagIP}, "neither a DNS name nor an IP address")
}

// checkKindsOfNames returns an error if a name has a tag that is not among the allowed ones.
func checkKindsOfNames(extensions []pkix.Extension, allowed []int, described string) error {
	for _, extension := range extensions {
		if !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) { // subjectAltName
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
			return errors.New("its subject alternative names are malformed")
		}
		for _, name := range names {
			if name.Class == asn1.ClassContextSpecific && slices.Contains(allowed, name.Tag) {
				continue
			}
			kind := "of an unknown kind"
			if name.Class == asn1.ClassContextSpecific && name.Tag < len(kindsOfNames) {
				kind = kindsOfNames[name.Tag]
			}
			return fmt.Errorf("it has a name that is %s: %s", described, kind)
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
