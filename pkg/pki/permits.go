package pki

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// PermitsDNS reports whether the name constraints of a CA certificate permit a
// DNS name, a wildcard included (RFC 5280, 4.2.1.10: a constraint is the domain
// and everything below it).
func PermitsDNS(ca *x509.Certificate, name string) bool {
	name = strings.ToLower(strings.TrimPrefix(name, "*."))
	within := func(domain string) bool {
		domain = strings.ToLower(strings.TrimPrefix(domain, "."))
		return domain == "" || name == domain || strings.HasSuffix(name, "."+domain)
	}
	return (len(ca.PermittedDNSDomains) == 0 || slices.ContainsFunc(ca.PermittedDNSDomains, within)) &&
		!slices.ContainsFunc(ca.ExcludedDNSDomains, within)
}

// PermitsIP reports whether the name constraints of a CA certificate permit an
// IP address as a name.
func PermitsIP(ca *x509.Certificate, addr netip.Addr) bool {
	ip := net.IP(addr.Unmap().AsSlice())
	// ParseCertificate returns IPv4 ranges of four bytes: for Contains, no IPv4 address
	// is in an IPv6 range.
	within := func(r *net.IPNet) bool { return r.Contains(ip) }
	return (len(ca.PermittedIPRanges) == 0 || slices.ContainsFunc(ca.PermittedIPRanges, within)) &&
		!slices.ContainsFunc(ca.ExcludedIPRanges, within)
}
