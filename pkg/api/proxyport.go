package api

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// proxyLike are names that look as if they asked for a proxy.
var proxyLike = regexp.MustCompile(`^(?i)(sc[-_.]|(sc|cs|s-c)-?(tls|any))`)

// LooksLikeProxyPort reports whether the name of a port looks as if it asked for a proxy, and asks
// for none. It may be the program's own.
func LooksLikeProxyPort(name string) bool {
	_, asks := ParseProxyPort(name)
	return !asks && proxyLike.MatchString(name)
}

// MustBeProxyPort is what a name must be to ask for a proxy.
const MustBeProxyPort = "must be " + proxyTLS + "PORT or " + proxyAny + "PORT, where PORT is the number of the program's port, from 1 to 65535, or its name, of at most 8 characters"

// CheckProxyPort returns why there is no proxy for a port of the Service whose targetPort looks as
// if it asked for one: a *FieldError, or nil. declared reports whether a container of the
// Service's pods declares a port of the name.
func CheckProxyPort(svc *corev1.Service, p corev1.ServicePort, declared func(name string) bool) error {
	const field = "targetPort"
	name := p.TargetPort.StrVal
	_, asks := ParseProxyPort(name)
	switch {
	case svc.DeletionTimestamp != nil || p.TargetPort.Type != intstr.String || declared(name):
		return nil
	case LooksLikeProxyPort(name):
		return &FieldError{field, name, "asks for no proxy: " + MustBeProxyPort}
	case asks && !Asks(svc):
		return &FieldError{field, name, "there is no proxy for it, as the Service asks for no certificate: must have annotation " + AnnotationSecretName + ", or " + AnnotationKeySource + ": " + string(KeySourcePod)}
	}
	return nil
}
