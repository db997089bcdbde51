package connect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// target returns the Target of a Service, without its address and names, or why it is left out and
// what to do. svc is nil if no Service of that name requests a certificate.
func (w wish) target(in inPod, svc *corev1.Service) (t Target, why string) {
	switch {
	case svc == nil:
		return t, "no Service of that name requests a certificate: correct the name, or give the Service a TLS port first"
	case api.IsExternal(svc):
		return t, "another issuer writes its Secret, and " + api.BundleName + " may not verify it: let the clients use TLS themselves"
	case api.IsHeadless(svc):
		return t, "it is headless, so its clients connect to pods: let them use TLS themselves"
	case api.CheckSize(svc) != nil:
		return t, "it is too large"
	}
	t = Target{Service: w.service, Namespace: w.namespace}
	secure, plain, other := split(svc)
	var without []string
	for _, p := range plain {
		if !w.wants(p.Port) {
			continue
		}
		tls, ok := twin(p, plain, secure)
		if !ok {
			without = append(without, strconv.Itoa(int(p.Port)))
			continue
		}
		t.Ports = append(t.Ports, Port{p.Port, tls, protocolOf(p, api.ConnectPlain)})
	}
	for _, p := range secure {
		if w.wants(p.Port) {
			t.Ports = append(t.Ports, Port{p.Port, p.Port, protocolOf(p, api.ConnectEither)})
		}
	}
	const onlySome = ", or list the ports that are meant, as SERVICE:PORT: the others are then closed for this pod under the Service's names"
	switch {
	case len(without) > 0:
		return t, "no TLS port belongs to port " + strings.Join(without, ", ") + ": add one to the Service" + onlySome
	case w.all && len(other) > 0:
		return t, "it has ports of other protocols than TCP (" + strings.Join(other, ", ") + ")" + strings.Replace(onlySome, ", or ", ": ", 1)
	}
	for _, port := range w.ports {
		if port != 0 && !slices.ContainsFunc(t.Ports, func(p Port) bool { return p.Port == port }) {
			return t, fmt.Sprintf("it has no TCP port %d: correct the number", port)
		}
	}
	for _, p := range t.Ports {
		if p.Port < in.firstPort {
			return t, fmt.Sprintf("the proxy may not listen on port %d, because the pod sets sysctl %s to %d: set it to 0", p.Port, UnprivilegedPorts, in.firstPort)
		}
		if where := in.ports[p.Port]; where != "" {
			return t, fmt.Sprintf("port %d is used in the pod itself (%s), where the proxy would listen for the Service: let the program listen on another port, or let the Service have another", p.Port, where)
		}
	}
	return t, ""
}

func (w wish) wants(port int32) bool { return w.all || slices.Contains(w.ports, port) }

// split returns the Service's TCP ports that serve TLS, its other TCP ports, and its ports of other
// protocols.
func split(svc *corev1.Service) (secure, plain []corev1.ServicePort, other []string) {
	targets := api.TLSTargets(svc)
	for _, p := range svc.Spec.Ports {
		switch {
		case cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP:
			other = append(other, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		case slices.Contains(targets, api.TargetPort(p)):
			secure = append(secure, p)
		default:
			plain = append(plain, p)
		}
	}
	return secure, plain, other
}

// twin returns the number of the TLS port that leads to the same program as a plaintext port:
//
//   - the one whose targetPort requests a proxy in front of the port's targetPort;
//   - the one whose name is that of the port with tls or https in place of http or beside it;
//   - the only one, if the port is the only one in plaintext.
func twin(p corev1.ServicePort, plain, secure []corev1.ServicePort) (int32, bool) {
	target := api.TargetPort(p)
	for _, s := range secure {
		if asked, ok := api.ParseProxyPort(s.TargetPort.StrVal); ok && (asked.UpstreamPort() == target || s.TargetPort == target) {
			return s.Port, true
		}
	}
	for _, s := range secure {
		if name := withoutTLS(s.Name); p.Name != "" && (name == p.Name || name == strings.TrimPrefix(p.Name, "http-") || name == strings.TrimSuffix(p.Name, "-http")) {
			return s.Port, true
		}
	}
	if len(plain) == 1 && len(secure) == 1 {
		return secure[0].Port, true
	}
	return 0, false
}

// withoutTLS returns the name of a TLS port without the word for TLS: http for https, web for
// tls-web and web-https.
func withoutTLS(name string) string {
	if name == "https" {
		return "http"
	}
	for _, word := range []string{"tls", "https", "ssl"} {
		if rest, ok := strings.CutPrefix(name, word+"-"); ok {
			return rest
		}
		if rest, ok := strings.CutSuffix(name, "-"+word); ok {
			return rest
		}
	}
	return name
}

// Words of ports whose clients speak HTTP, and of ports whose servers send first; and the numbers of
// such ports without a telling name.
var (
	httpWords   = []string{"http", "https", "http2", "h2", "h2c", "grpc", "grpcs", "ws", "wss"}
	httpPorts   = []int32{80, 443, 8080, 8443}
	serverWords = []string{"mysql", "mariadb", "smtp", "submission", "ftp", "imap", "pop3", "nats", "ssh"}
	serverPorts = []int32{21, 22, 25, 110, 143, 587, 3306, 4222}
)

// protocolOf returns how connections to a port begin: as its appProtocol or name says, or else its
// number; otherwise in the given way.
func protocolOf(p corev1.ServicePort, otherwise api.ConnectProtocol) api.ConnectProtocol {
	texts := []string{p.Name}
	if p.AppProtocol != nil {
		texts = append(texts, *p.AppProtocol)
	}
	for _, text := range texts {
		for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == '-' || r == '/' || r == '.' }) {
			switch {
			case slices.Contains(httpWords, word):
				return api.ConnectHTTP
			case slices.Contains(serverWords, word):
				return api.ConnectPlain
			}
		}
	}
	switch {
	case slices.Contains(httpPorts, p.Port):
		return api.ConnectHTTP
	case slices.Contains(serverPorts, p.Port):
		return api.ConnectPlain
	}
	return otherwise
}
