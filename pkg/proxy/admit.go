package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/pki"
)

// MaxAdmission is the maximum size of the list of admitted clients, in bytes.
const MaxAdmission = 64 << 10

// A Reason is why a client is not admitted. Empty means that it is.
type Reason string

// Reasons, which are values of the label reason in metrics.
const (
	NoCertificate Reason = "no_certificate" // the client presented no certificate
	Unverified    Reason = "unverified"     // its certificate is not valid as that of a client
	NotListed     Reason = "not_listed"     // no entry of the port names its identity
	Unencrypted   Reason = "plaintext"      // it does not use TLS
)

// Reasons returns all reasons.
func Reasons() []Reason { return []Reason{NoCertificate, Unverified, NotListed, Unencrypted} }

// A Caller is a client as a Guard sees it.
type Caller struct {
	// ID is its identity if it has one that was verified.
	ID pki.SPIFFEID
	// Without is why it has no verified identity, or empty.
	Without Reason
}

// An Admission says which clients the guarded ports of the proxy admit. It does not change.
type Admission struct {
	guards map[string]*Guard // by name of the port
	closed bool
}

// AdmitNobody returns the Admission that guards each port, and admits no client.
func AdmitNobody() *Admission { return &Admission{closed: true} }

// nobody admits no client.
var nobody = &Guard{}

// Guard returns who may use a port, or nil if the list says that it is open.
func (a *Admission) Guard(port string) *Guard {
	if guard, listed := a.guards[port]; listed && !a.closed {
		return guard
	}
	return nobody
}

// Ports returns the sorted names of the guarded ports in the list.
func (a *Admission) Ports() (names []string) {
	for name, guard := range a.guards {
		if guard != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A Guard says which clients a port admits.
type Guard struct {
	// Watch is true if the port admits each client. Who would not be admitted otherwise is counted.
	Watch bool

	anyone  bool                // with an identity
	entries map[string]struct{} // NAMESPACE/SERVICEACCOUNT, each of which may be a *
}

// Judge returns why the entries do not admit a client, or "" if they do, whether or not the port only
// watches. The time that it takes does not depend on the number of entries.
func (g *Guard) Judge(c Caller) Reason {
	if c.Without != "" {
		return c.Without
	}
	if g.anyone {
		return ""
	}
	for _, entry := range [...][2]string{{c.ID.Namespace, c.ID.ServiceAccount}, {c.ID.Namespace, "*"}, {"*", c.ID.ServiceAccount}} {
		if _, ok := g.entries[entry[0]+"/"+entry[1]]; ok {
			return ""
		}
	}
	return NotListed
}

const admissionSyntax = "NAME=ENTRY,ENTRY;NAME=ENTRY"

// ParseAdmission reads NAME=ENTRY,ENTRY;NAME=ENTRY. NAME is the name of a port, and ENTRY is
// NAMESPACE/SERVICEACCOUNT with * for each of the parts, any (each client with an identity) or watch
// (each client, but count who would be refused); or the only ENTRY is open, so that the port is not guarded.
// White space around names and entries is ignored. A port without an entry admits nobody, and nor does one
// that is not in the list: an annotation that somebody has removed opens no port.
func ParseAdmission(text string) (*Admission, error) {
	if len(text) > MaxAdmission {
		return nil, fmt.Errorf("is larger than %d KiB", MaxAdmission>>10)
	}
	a := &Admission{guards: map[string]*Guard{}}
	if strings.TrimSpace(text) == "" {
		return a, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		name, entries, found := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		_, isPort := parsePortName(name)
		switch {
		case !found:
			return nil, fmt.Errorf("%q: has no =: must be %s", excerpt(part), admissionSyntax)
		case !isPort:
			return nil, fmt.Errorf("%q is not the name of a port: must be %sPORT or %sPORT", excerpt(name), prefixTLS, prefixAny)
		case has(a.guards, name):
			return nil, fmt.Errorf("%s: must be in the list once", name)
		}
		g, err := parseGuard(entries)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		a.guards[name] = g
	}
	return a, nil
}

// has reports whether the port is in the list.
func has(guards map[string]*Guard, name string) bool { _, listed := guards[name]; return listed }

// parseGuard returns nil for a port that is open.
func parseGuard(text string) (*Guard, error) {
	switch strings.TrimSpace(text) {
	case "":
		return nobody, nil
	case "open":
		return nil, nil
	}
	g := &Guard{entries: make(map[string]struct{}, min(strings.Count(text, ",")+1, MaxAdmission/len("a/b,")))}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		switch entry {
		case "watch":
			g.Watch = true
			continue
		case "any", "*/*":
			g.anyone = true
			continue
		}
		if err := checkEntry(entry); err != nil {
			return nil, fmt.Errorf("%q: %w: must be NAMESPACE/SERVICEACCOUNT, with * for each of them, any or watch", excerpt(entry), err)
		}
		g.entries[entry] = struct{}{}
	}
	return g, nil
}

func checkEntry(entry string) error {
	namespace, account, found := strings.Cut(entry, "/")
	switch {
	case !found:
		return errors.New("has no /")
	case namespace != "*" && !validLabel(namespace):
		return errors.New("has no valid namespace")
	case account != "*" && !validAccount(account):
		return errors.New("has no valid ServiceAccount")
	}
	return nil
}

// validAccount reports whether s is a name of RFC 1123, as ServiceAccounts have (IsDNS1123Subdomain of
// apimachinery).
func validAccount(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(s)-1 && s[i-1] != '.' && (c == '-' || s[i-1] != '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= 253
}

// excerpt returns the beginning of a text, for an error.
func excerpt(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
