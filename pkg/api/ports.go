package api

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	admin := func(name string) bool {
		return slices.ContainsFunc(strings.Split(strings.ToLower(name), "-"), func(word string) bool { return slices.Contains(adminWords, word) })
	}
	for _, p := range svc.Spec.Ports {
		if !admin(p.Name) && !admin(p.TargetPort.StrVal) && (p.Name+p.TargetPort.StrVal != "" || !admin(svc.Name)) {
			return false
		}
	}
	return len(svc.Spec.Ports) > 0
}

// nameSaysTLS reports whether the name of a port, such as https-metrics, or an
// appProtocol, such as kubernetes.io/wss, indicates TLS.
func nameSaysTLS(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	first, _, _ := strings.Cut(strings.ToLower(name), "-")
	return slices.Contains([]string{"https", "tls", "grpcs", "wss"}, first)
}
