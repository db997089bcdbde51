package signer

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// checkIssued says how the leaf differs from the request (invariant 2), or nil.
func checkIssued(leaf *x509.Certificate, pub crypto.PublicKey, ca *pki.Authority, request SigningRequest, now time.Time) error {
	key, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !ok || !key.Equal(pub):
		return errors.New("it is for another key")
	case !slices.Equal(sortedNames(leaf), request.DNSNames):
		return fmt.Errorf("its names are %q, must be %q", leaf.DNSNames, request.DNSNames)
	case !slices.Equal(sortedIPs(leaf), request.IPs):
		return fmt.Errorf("its IP addresses are %v, must be %v", leaf.IPAddresses, request.IPs)
	case request.CommonName != "" && leaf.Subject.CommonName != request.CommonName:
		return fmt.Errorf("its common name is %q, must be %q", leaf.Subject.CommonName, request.CommonName)
	case leaf.Subject.CommonName != "" && !slices.Contains(request.DNSNames, leaf.Subject.CommonName):
		return fmt.Errorf("its common name is %q, must be empty or one of %q", leaf.Subject.CommonName, request.DNSNames)
	case leaf.NotAfter.After(request.NotAfter):
		return fmt.Errorf("it expires at %s, must not expire after %s", leaf.NotAfter.Format(time.RFC3339), request.NotAfter.Format(time.RFC3339))
	case leaf.NotBefore.After(now):
		return fmt.Errorf("it is not valid before %s", leaf.NotBefore.Format(time.RFC3339))
	case leaf.NotBefore.Before(request.NotBefore.Add(-maxBackdate)):
		return fmt.Errorf("it is valid from %s, must not be valid earlier than %s before it is issued", leaf.NotBefore.Format(time.RFC3339), maxBackdate+pki.Backdate)
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

// What a remote CA may do other than it was asked. Beyond, certificates would
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
		return fmt.Errorf("its lifetime is %s, must be at least %s", lifetime, minLifetime)
	case pki.RenewAt(leaf).Before(now.Add(minUntilRenewal)):
		return fmt.Errorf("it is valid from %s to %s and would be due for renewal at %s: it must be valid for at least %s after it is issued", leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339), pki.RenewAt(leaf).Format(time.RFC3339), minLifetime)
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

// CheckKindsOfNames says which subject alternative name among the extensions is
// neither a DNS name nor an IP address, or nil. It reads the extension itself:
// crypto/x509 passes over most other kinds.
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

func sortedNames(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	slices.Sort(names)
	return names
}

func sortedIPs(leaf *x509.Certificate) []netip.Addr {
	var ips []netip.Addr
	for _, ip := range leaf.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			ips = append(ips, a.Unmap())
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return ips
}
