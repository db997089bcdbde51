package api

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A ProxyPort is the proxy that a Service requests by a targetPort whose name begins with "sc-tls-"
// or "sc-any-". It runs in the pods of the Service, terminates TLS and forwards to a port of the
// program.
type ProxyPort struct {
	// Plaintext: connections without TLS are forwarded too.
	Plaintext bool
	// Upstream is the port of the program: a number, or the name of a port that a container
	// declares.
	Upstream string
}

// Prefixes of port names. A port name has at most 15 characters, so the name of a program's port
// may have at most 8.
const (
	proxyTLS = "sc-tls-"
	proxyAny = "sc-any-"
)

// ParseProxyPort reads the name of a port. It returns false for a name that does not request a
// proxy, and for one that is not a valid port name.
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

// Name returns the name of the port that requests p.
func (p ProxyPort) Name() string {
	if p.Plaintext {
		return proxyAny + p.Upstream
	}
	return proxyTLS + p.Upstream
}

// proxyLike matches names that resemble those of a proxy's port.
var proxyLike = regexp.MustCompile(`^(?i)(sc[-_.]|(sc|cs|s-c)-?(tls|any))`)

// LooksLikeProxyPort reports whether the name of a port resembles that of a proxy's port but does not
// request a proxy. It may be a port of the program.
func LooksLikeProxyPort(name string) bool {
	_, asks := ParseProxyPort(name)
	return !asks && proxyLike.MatchString(name)
}

// MustBeProxyPort describes the names that request a proxy.
const MustBeProxyPort = "must be " + proxyTLS + "PORT or " + proxyAny + "PORT, where PORT is the number of the program's port, from 1 to 65535, or its name, of at most 8 characters"

// CheckProxyPort returns a *FieldError if the targetPort of a Service's port is meant to request a
// proxy but gets none, or nil. declared reports whether a container of the Service's pods declares
// a port with the name.
func CheckProxyPort(svc *corev1.Service, p corev1.ServicePort, declared func(name string) bool) error {
	const field = "targetPort"
	name := p.TargetPort.StrVal
	_, asks := ParseProxyPort(name)
	switch {
	case svc.DeletionTimestamp != nil || p.TargetPort.Type != intstr.String || declared(name):
		return nil
	case LooksLikeProxyPort(name):
		return &FieldError{field, name, "does not request a proxy: " + MustBeProxyPort}
	case asks && !Asks(svc):
		return &FieldError{field, name, "no proxy is added, because the Service does not request a certificate: must have annotation " + AnnotationSecretName + ", or " + AnnotationKeySource + ": " + string(KeySourcePod)}
	}
	return nil
}
