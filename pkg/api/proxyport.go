package api

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A ProxyPort is what the name of a Service's targetPort asks for, if it begins with "sc-tls-" or
// "sc-any-": a proxy in the pods of the Service, which terminates TLS and forwards to a port of
// the program.
type ProxyPort struct {
	// Plaintext: connections that do not begin with a TLS handshake are forwarded too.
	Plaintext bool
	// Upstream is the port of the program: a number, or the name of a port that a container
	// declares.
	Upstream string
}

// Beginnings of names of ports. A name has at most 15 characters, so the name of a program's port
// fits if it has at most 8.
const (
	proxyTLS = "sc-tls-"
	proxyAny = "sc-any-"
)

// ParseProxyPort reads the name of a port. It returns false for a name that asks for no proxy, and
// for one that cannot be the name of a port.
func ParseProxyPort(name string) (ProxyPort, bool) {
	p := ProxyPort{}
	rest, ok := strings.CutPrefix(name, proxyTLS)
	if !ok {
		rest, p.Plaintext = strings.CutPrefix(name, proxyAny)
		ok = p.Plaintext
	}
	if !ok || len(validation.IsValidPortName(name)) > 0 || !validUpstream(rest) {
		return ProxyPort{}, false
	}
	p.Upstream = rest
	return p, true
}

func validUpstream(s string) bool {
	if number, err := strconv.Atoi(s); err == nil {
		return len(validation.IsValidPortNum(number)) == 0 && strconv.Itoa(number) == s
	}
	return len(validation.IsValidPortName(s)) == 0
}

// Name returns the name of the port that asks for p.
func (p ProxyPort) Name() string {
	if p.Plaintext {
		return proxyAny + p.Upstream
	}
	return proxyTLS + p.Upstream
}
