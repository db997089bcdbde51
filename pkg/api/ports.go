package api

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TLSTargets returns the targetPorts that serve TLS: those of the Service's TCP ports
// whose name, appProtocol or number indicates TLS or that request a proxy
// ([ParseProxyPort]), or of all its TCP ports if there is no such port.
func TLSTargets(svc *corev1.Service) []intstr.IntOrString {
	var all, secure []intstr.IntOrString
	for _, p := range svc.Spec.Ports {
		if !isTCP(p) {
			continue
		}
		target := TargetPort(p)
		all = append(all, target)
		if _, proxied := proxyTarget(target); proxied || saysTLS(p) {
			secure = append(secure, target)
		}
	}
	if len(secure) > 0 {
		return secure
	}
	return all
}

// TCPTargets returns the targetPorts of the Service's TCP ports, whether they serve TLS or not.
func TCPTargets(svc *corev1.Service) (all []intstr.IntOrString) {
	for _, p := range svc.Spec.Ports {
		if isTCP(p) {
			all = append(all, TargetPort(p))
		}
	}
	return all
}

// ProxyTargets returns the names of those [TLSTargets] that request a proxy ([ParseProxyPort]), each
// once.
func ProxyTargets(svc *corev1.Service) []string {
	var names []string
	for _, target := range TLSTargets(svc) {
		if p, ok := proxyTarget(target); ok && !slices.Contains(names, p.Name()) {
			names = append(names, p.Name())
		}
	}
	return names
}

// PortSaysTLS reports whether the name or the number of a port indicates TLS.
func PortSaysTLS(name string, number int32) bool {
	return nameSaysTLS(name) || number == 443 || number == 6443 || number == 8443 || number == 9443
}

// adminWords are the words in names of ports that serve a program's operators, not its
// clients.
var adminWords = []string{
	"admin", "debug", "exporter", "health", "healthcheck", "healthz", "management", "metrics",
	"monitor", "monitoring", "pprof", "probe", "probes", "prometheus", "stats", "telemetry",
}

// AdminOnly reports whether the Service has ports and all of them are for metrics or
// administration, according to a word in the name of the port or of its targetPort, such
// as http-metrics. For a port without either name, the name of the Service decides.
func AdminOnly(svc *corev1.Service) bool {
	for _, p := range svc.Spec.Ports {
		if !IsAdminPort(p) && (p.Name+p.TargetPort.StrVal != "" || !isAdmin(svc.Name)) {
			return false
		}
	}
	return len(svc.Spec.Ports) > 0
}

// IsAdminPort reports whether a port of a Service is for metrics or administration, according to a
// word in its name or in that of its targetPort.
func IsAdminPort(p corev1.ServicePort) bool { return isAdmin(p.Name) || isAdmin(p.TargetPort.StrVal) }

func isAdmin(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(name), "-"), func(word string) bool { return slices.Contains(adminWords, word) })
}

// nameSaysTLS reports whether the name of a port, such as https-metrics, or an
// appProtocol, such as kubernetes.io/wss, indicates TLS.
func nameSaysTLS(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	first, _, _ := strings.Cut(name, "-")
	return len(first) <= len("https") && slices.Contains([]string{"https", "tls", "grpcs", "wss"}, strings.ToLower(first))
}

func isTCP(p corev1.ServicePort) bool {
	return cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
}

// TargetPort returns the port's targetPort, or the API server's default of it.
func TargetPort(p corev1.ServicePort) intstr.IntOrString {
	if p.TargetPort == (intstr.IntOrString{}) {
		return intstr.FromInt32(p.Port)
	}
	return p.TargetPort
}

// saysTLS reports whether the port's name, appProtocol or number indicates TLS.
func saysTLS(p corev1.ServicePort) bool { return PortSaysTLS(p.Name, p.Port) || WordsSayTLS(p) }

// ServesTLS reports whether a port of a Service requests a proxy ([ParseProxyPort]), or its name,
// appProtocol or number indicates TLS.
func ServesTLS(p corev1.ServicePort) bool {
	_, proxied := proxyTarget(TargetPort(p))
	return isTCP(p) && (proxied || saysTLS(p))
}

// WordsSayTLS reports whether the name or the appProtocol of a port indicates TLS, so that its clients
// probably start with it.
func WordsSayTLS(p corev1.ServicePort) bool {
	return nameSaysTLS(p.Name) || p.AppProtocol != nil && nameSaysTLS(*p.AppProtocol)
}

// SpeaksH2 reports whether the Service's port uses HTTP/2 without TLS (h2c), as gRPC does,
// according to its appProtocol or the first word of its name.
func SpeaksH2(p corev1.ServicePort) bool {
	if p.AppProtocol != nil && (*p.AppProtocol == "kubernetes.io/h2c" || *p.AppProtocol == "grpc") {
		return true
	}
	return strings.HasPrefix(p.Name, "grpc") || strings.HasPrefix(p.Name, "h2c")
}

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

// UpstreamPort returns the port of the program as a targetPort: its number or its name.
func (p ProxyPort) UpstreamPort() intstr.IntOrString {
	if n, err := strconv.ParseUint(p.Upstream, 10, 16); err == nil {
		return intstr.FromInt32(int32(n))
	}
	return intstr.FromString(p.Upstream)
}

// proxyTarget returns the proxy that a targetPort requests, or false if it requests none.
func proxyTarget(target intstr.IntOrString) (ProxyPort, bool) {
	if target.Type != intstr.String {
		return ProxyPort{}, false
	}
	return ParseProxyPort(target.StrVal)
}
