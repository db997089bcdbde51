package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// SPIFFEID is the identity of a pod: the ServiceAccount that it runs as, in a trust domain. Its text is
// spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICEACCOUNT, as in Istio and cert-manager's csi-driver-spiffe
// (SPIFFE-ID, 2).
type SPIFFEID struct{ TrustDomain, Namespace, ServiceAccount string }

// String returns the ID as a URI.
func (id SPIFFEID) String() string {
	return "spiffe://" + id.TrustDomain + "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount
}

// pathOfID matches the path of an ID. The names are those that the API server accepts for namespaces
// and ServiceAccounts, of at most maxNamespace and maxAccount characters: counted in the expression, they
// would cost the proxy of each pod 0.4 MB.
var pathOfID = regexp.MustCompile(`^/ns/([a-z0-9-]+)/sa/([a-z0-9.-]+)$`)

const (
	maxNamespace = 63
	maxAccount   = 253
)

// ParseSPIFFEID returns the identity in a URI, and false for the URI of anything else.
func ParseSPIFFEID(uri *url.URL) (id SPIFFEID, ok bool) {
	path := pathOfID.FindStringSubmatch(uri.Path)
	if len(path) != 3 || len(path[1]) > maxNamespace || len(path[2]) > maxAccount {
		return id, false
	}
	id = SPIFFEID{uri.Host, path[1], path[2]}
	return id, id.String() == uri.String() // neither a port, a user, a query nor escapes
}

// IdentityOf returns the identity in a certificate whose chain has been verified: its only URI
// (X509-SVID, 2).
func IdentityOf(leaf *x509.Certificate) (SPIFFEID, error) {
	if len(leaf.URIs) != 1 {
		return SPIFFEID{}, fmt.Errorf("it has %d URIs, must be one: the SPIFFE ID", len(leaf.URIs))
	}
	id, ok := ParseSPIFFEID(leaf.URIs[0])
	if !ok {
		return SPIFFEID{}, errors.New("its URI is not the SPIFFE ID of a ServiceAccount")
	}
	return id, nil
}

// maxTrustDomain is the most characters of a trust domain, and maxLabel those of a label of a DNS name.
// SPIFFE-ID, 2.1, allows 255, but 29 are left for the name of a file with its roots (api.IdentityRoots).
const (
	maxTrustDomain = 226
	maxLabel       = 63
)

// trustDomain matches trust domains that are DNS names too, as the name constraint of a CA for URIs
// demands (RFC 5280, 4.2.1.10).
var trustDomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// onlyDigits matches what verifiers could take for an IP address, which has no place in that constraint.
var onlyDigits = regexp.MustCompile(`(^|\.)[0-9]+$`)

// CheckTrustDomain returns an error if a text is not valid as the trust domain of a CA for clients.
func CheckTrustDomain(name string) error {
	long := slices.ContainsFunc(strings.Split(name, "."), func(label string) bool { return len(label) > maxLabel })
	if long || len(name) > maxTrustDomain || !trustDomain.MatchString(name) || onlyDigits.MatchString(name) || name == noHost {
		return fmt.Errorf("%q: must be a DNS name in lower case whose last part is not a number, such as cluster.local", name)
	}
	return nil
}

// CheckIdentity returns an error if an extension of the leaf, whose key has the algorithm, is not that of
// a client certificate with the identity, or if it has any other name.
func CheckIdentity(leaf *x509.Certificate, algorithm KeyAlgorithm, id SPIFFEID) error {
	if err := checkUsages(leaf, algorithm, x509.ExtKeyUsageClientAuth, "clientAuth"); err != nil {
		return err
	}
	if err := checkKindsOfNames(leaf.Extensions, []int{tagURI}, "no URI"); err != nil {
		return err
	}
	switch found, err := IdentityOf(leaf); {
	case err != nil:
		return err
	case found != id:
		return fmt.Errorf("its identity is %s, must be %s", found, id)
	case leaf.Subject.CommonName != "":
		return errors.New("it has a common name, must have none")
	}
	return nil
}

// TrustDomainOf returns the trust domain that a CA for clients may sign; empty for another CA.
func TrustDomainOf(ca *x509.Certificate) string {
	if !slices.Equal(ca.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) || len(ca.PermittedURIDomains) != 1 {
		return ""
	}
	return strings.ToLower(ca.PermittedURIDomains[0])
}
