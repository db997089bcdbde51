package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"regexp"
	"slices"
	"time"
)

// Constraints are the names that a CA may sign: the critical name constraints
// of its certificate (RFC 5280, 4.2.1.10). A CA that is made here may not sign e-mail
// addresses, and signs either certificates for servers, without URIs, or certificates for clients.
type Constraints struct {
	// PermittedDNS are the domains, with everything below them.
	PermittedDNS []string
	// PermitIPs leaves IP addresses unconstrained. Otherwise none are permitted.
	PermitIPs bool
	// TrustDomain, if not empty, makes the CA one for clients: their certificates have URIs with this
	// host, and no other name.
	TrustDomain string
}

// ForClients returns the constraints of a CA for clients ([CheckTrustDomain]).
func ForClients(trustDomain string) Constraints {
	return Constraints{PermittedDNS: []string{noHost}, TrustDomain: trustDomain}
}

// Normalize returns the constraints sorted and without duplicates, so that
// equal constraints compare equal.
func (c Constraints) Normalize() Constraints {
	dns := slices.Clone(c.PermittedDNS)
	slices.Sort(dns)
	c.PermittedDNS = slices.Compact(dns)
	return c
}

// ConstraintsOf reads the constraints back from a certificate that NewRoot made.
func ConstraintsOf(ca *x509.Certificate) Constraints {
	return Constraints{
		PermittedDNS: ca.PermittedDNSDomains, PermitIPs: len(ca.PermittedIPRanges)+len(ca.ExcludedIPRanges) == 0, TrustDomain: TrustDomainOf(ca),
	}.Normalize()
}

// noIPs permits only one IP address of each family that no Service can have: "this
// host" (RFC 1122, 3.2.1.3) and one of the discard-only prefix (RFC 6666). Both
// families are needed, as GnuTLS checks an IPv6 address only against IPv6 ranges.
// Excluding 0.0.0.0/0 and ::/0 would mean the same, but Java fails if two certificates
// of a path do that: its IPAddressName.constrains compares an IPv4 range with an IPv6
// range as if one were an address, and indexes out of bounds if their first bytes are
// equal. Those of these two differ.
func noIPs() []*net.IPNet {
	return []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(32, 32)},
		{IP: net.ParseIP("100::"), Mask: net.CIDRMask(128, 128)},
	}
}

// noHost is the only permitted host of what a CA does not sign, such as e-mail addresses: no host has
// this name (RFC 6761, 6.4). Excluding all by an empty constraint would not work: RFC 5280 does
// not define one for these, and in OpenSSL it matches nothing.
const noHost = "invalid"

// KeyID returns the subject key identifier of a public key: the leftmost 160
// bits of the SHA-256 of its SubjectPublicKeyInfo (RFC 7093, 2, method 4).
func KeyID(pub crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, fmt.Errorf("key id: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:20], nil
}

// ownName matches the common name of a CA that NewRoot or NewClusterRoot has made.
var ownName = regexp.MustCompile(`^servingcert CA ([0-9]+) [0-9a-f]{8}$`)

// OwnGeneration returns the generation in the common name of such a CA. Anybody can make a CA with
// that name.
func OwnGeneration(commonName string) (generation string, ok bool) {
	match := ownName.FindStringSubmatch(commonName)
	if match == nil {
		return "", false
	}
	return match[1], true
}

// NewRoot is NewClusterRoot for a cluster without an ID.
func NewRoot(key crypto.Signer, n int, constraints Constraints, notBefore, notAfter time.Time) (*x509.Certificate, error) {
	return NewClusterRoot(key, "", n, constraints, notBefore, notAfter)
}

// NewClusterRoot creates the self-signed certificate of generation n of a cluster's CA. Its
// subject is unique to the key: with equal subjects Go omits the authority key ID and
// verifiers pick the wrong issuer. cluster, if not empty, is its organizational unit; see
// CheckClusterID. It has no path length, under which a chain of cross-certificates fails.
func NewClusterRoot(key crypto.Signer, cluster string, n int, constraints Constraints, notBefore, notAfter time.Time) (*x509.Certificate, error) {
	if err := CheckClusterID(cluster); err != nil {
		return nil, fmt.Errorf("cluster id: %w", err)
	}
	template, err := caTemplate(key.Public(), n, constraints, notBefore, notAfter)
	if err != nil {
		return nil, err
	}
	if cluster != "" {
		template.Subject.OrganizationalUnit = []string{cluster}
	}
	return createCA(template, template, key.Public(), key)
}

// maxClusterID is the upper bound of an organizational unit (RFC 5280, ub-organizational-unit-name).
const maxClusterID = 64

// clusterID matches IDs that need no escapes in a subject (RFC 4514), in a metrics label or in a
// shell.
var clusterID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// CheckClusterID returns an error if the ID of a cluster is not valid. It may be empty.
func CheckClusterID(id string) error {
	if id != "" && (len(id) > maxClusterID || !clusterID.MatchString(id)) {
		return fmt.Errorf("%q: must be at most %d letters, digits, '-', '_' and '.', and begin and end with a letter or digit", id, maxClusterID)
	}
	return nil
}

func caTemplate(pub crypto.PublicKey, n int, constraints Constraints, notBefore, notAfter time.Time) (*x509.Certificate, error) {
	if len(constraints.PermittedDNS) == 0 {
		return nil, errors.New("permitted domains: none: must be at least one, as a CA without any could sign every name")
	}
	id, err := KeyID(pub)
	if err != nil {
		return nil, err
	}
	serial, err := NewSerial()
	if err != nil {
		return nil, err
	}
	constraints = constraints.Normalize()
	template := &x509.Certificate{
		SerialNumber:                serial,
		Subject:                     pkix.Name{CommonName: fmt.Sprintf("servingcert CA %d %s", n, hex.EncodeToString(id[:4]))},
		NotBefore:                   notBefore.UTC().Truncate(time.Second),
		NotAfter:                    notAfter.UTC().Truncate(time.Second),
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid:       true,
		IsCA:                        true,
		SubjectKeyId:                id,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         constraints.PermittedDNS,
		PermittedEmailAddresses:     []string{noHost},
		PermittedURIDomains:         []string{noHost},
		// All leaves are certificates for servers (RFC 5280, 4.2.1.12). The RFC does not
		// apply a CA's extended key usages to what it signs, but every verifier that
		// checks them does.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if !constraints.PermitIPs {
		template.PermittedIPRanges = noIPs()
	}
	if constraints.TrustDomain != "" {
		template.Subject.CommonName = fmt.Sprintf("servingcert client CA %d %s", n, hex.EncodeToString(id[:4]))
		template.PermittedURIDomains = []string{constraints.TrustDomain}
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	return template, nil
}

func createCA(template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("sign CA certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// NewSerial returns a random positive serial number of 127 bits (the CA/Browser
// Forum asks for 64 bits of randomness, RFC 5280 for at most 20 octets).
func NewSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

// CheckCA returns an error if cert with key cannot be a signing CA at now. The error does
// not contain the current time: it is published, and each change would be a write.
func CheckCA(cert *x509.Certificate, key crypto.Signer, now time.Time) error {
	switch {
	case !cert.IsCA || !cert.BasicConstraintsValid:
		return errors.New("the certificate is not a CA")
	case cert.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("the certificate's key usage does not allow signing certificates")
	case !KeyMatches(cert, key):
		return errors.New("the private key does not belong to the certificate")
	case now.Before(cert.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s by the clock of this machine", cert.NotBefore.Format(time.RFC3339))
	case now.After(cert.NotAfter):
		return fmt.Errorf("the certificate expired at %s by the clock of this machine", cert.NotAfter.Format(time.RFC3339))
	}
	return nil
}
