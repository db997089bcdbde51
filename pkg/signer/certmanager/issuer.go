package certmanager

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Group is the API group of CertificateRequests, and the default group of an issuer.
const Group = "cert-manager.io"

// Issuer refers to an issuer, as spec.issuerRef of a CertificateRequest does.
type Issuer struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Group string `json:"group"`
}

var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// ParseIssuer parses KIND/NAME[.GROUP], or KIND.GROUP/NAME for a name with dots. The default
// group is Group.
func ParseIssuer(s string) (Issuer, error) {
	const form = "must be KIND/NAME, KIND/NAME.GROUP or KIND.GROUP/NAME, such as ClusterIssuer/vault"
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		return Issuer{}, fmt.Errorf("%.100q: %s", s, form)
	}
	kind, group, inKind := strings.Cut(kind, ".")
	if !inKind {
		name, group, _ = strings.Cut(name, ".")
	}
	if group == "" {
		group = Group
	}
	switch {
	case !kindPattern.MatchString(kind):
		return Issuer{}, fmt.Errorf("%.100q: %q is not a kind: %s", s, kind, form)
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return Issuer{}, fmt.Errorf("%.100q: %q is not the name of an object: %s", s, name, form)
	case len(validation.IsDNS1123Subdomain(group)) > 0:
		return Issuer{}, fmt.Errorf("%.100q: %q is not an API group: %s", s, group, form)
	}
	return Issuer{Name: name, Kind: kind, Group: group}, nil
}

// String returns the issuer in the form KIND[.GROUP]/NAME.
func (i Issuer) String() string {
	if i.Group == Group {
		return i.Kind + "/" + i.Name
	}
	return i.Kind + "." + i.Group + "/" + i.Name
}
