package connect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// target returns the Target of a Service, without its address and names, or why it is left out and
// what to do. svc is nil if no Service of that name requests a certificate.
func (w wish) target(in inPod, svc *corev1.Service) (t Target, why string) {
	if why := w.unsuitable(in, svc); why != "" {
		return t, why
	}
	t = Target{Service: w.service, Namespace: w.namespace}
	if t.Ports, why = w.portsOf(svc); why != "" {
		return t, why
	}
	for _, p := range t.Ports {
		if p.Port < in.firstPort {
			return t, fmt.Sprintf("the proxy may not listen on port %d, because the pod sets sysctl %s to %d: set it to 0", p.Port, UnprivilegedPorts, in.firstPort)
		}
		where := in.ports[p.Port]
		if onlyIPv6(svc) { // its address is ::1
			where = cmp.Or(where, in.loopback[p.Port])
		}
		if where != "" {
			return t, fmt.Sprintf("port %d is used in the pod itself (%s), where the proxy would listen for the Service: let the program listen on another port, or let the Service have another", p.Port, where)
		}
	}
	return t, ""
}

// unsuitable returns why no proxy can connect to the Service, whatever its ports are; "" if one can.
func (w wish) unsuitable(in inPod, svc *corev1.Service) string {
	switch {
	case svc == nil:
		return "no Service of that name requests a certificate: correct the name, or give the Service a TLS port first; for one of type ExternalName, " + ownTLS
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return "it has type ExternalName, and leads to a host that gets no certificate: " + ownTLS
	case api.IsExternal(svc):
		return "another issuer issues its certificate, and " + api.BundleName + " may not verify it: " + ownTLS
	case api.IsHeadless(svc):
		return "it is headless, so its clients connect to pods: " + ownTLS
	case api.CheckSize(svc) != nil:
		return "it is too large"
	case !w.listed && len(svc.Spec.Ports) > mostUnlisted:
		return fmt.Sprintf("it has more than %d ports: list it by its name", mostUnlisted)
	case w.foreign && w.all && len(svc.Spec.Ports) > mostUnlisted:
		return fmt.Sprintf("it has more than %d ports, and another namespace owns it: %s", mostUnlisted, listPorts)
	case w.foreign && w.all && onlyIPv6(svc):
		return "it has no IPv4 address, and another namespace owns it: " + listPorts
	case in.ownHosts:
		return "a container mounts its own /etc/hosts: remove that mount"
	}
	return ""
}

const ownTLS = "let the clients use TLS themselves"

const listPorts = "list the ports that are meant, as SERVICE.NAMESPACE:PORT"

// portsOf returns the wanted ports of the Service, or why not all of them can be had.
func (w wish) portsOf(svc *corev1.Service) (out []Port, why string) {
	ports := split(svc)
	twin := ports.twins()
	var without []string
	for _, p := range ports.plain {
		if !w.wants(p.Port) {
			continue
		}
		tls, ok := twin(p)
		if !ok {
			without = append(without, strconv.Itoa(int(p.Port)))
			continue
		}
		out = append(out, Port{p.Port, tls, protocolOf(p, api.ConnectPlain)})
	}
	for _, p := range ports.secure {
		if w.wants(p.Port) {
			out = append(out, Port{p.Port, p.Port, p.protocol()})
		}
	}
	const onlySome = "list the ports that are meant, as SERVICE:PORT: the others are then closed for this pod under the Service's names"
	switch {
	case len(without) > 0:
		return nil, "no TLS port belongs to port " + strings.Join(without, ", ") + ": add one to the Service, or " + onlySome
	case w.all && len(ports.other) > 0:
		return nil, "it has ports of other protocols than TCP (" + strings.Join(ports.other, ", ") + "): " + onlySome
	}
	for _, port := range w.ports {
		if port != 0 && !slices.ContainsFunc(out, func(p Port) bool { return p.Port == port }) {
			return nil, fmt.Sprintf("it has no TCP port %d: correct the number", port)
		}
	}
	return out, ""
}

func (w wish) wants(port int32) bool { return w.all || slices.Contains(w.ports, port) }

// securePort is a port that serves TLS.
type securePort struct {
	corev1.ServicePort
	// upstream is the program's port behind a proxy; zero without a proxy.
	upstream intstr.IntOrString
	bare     string // withoutTLS of its name
}

// protocol returns how connections to the port begin. If it says that it is TLS, its clients probably
// start with it, even if a server without TLS would send first.
func (p securePort) protocol() api.ConnectProtocol {
	protocol := protocolOf(p.ServicePort, api.ConnectEither)
	if protocol == api.ConnectPlain && api.WordsSayTLS(p.ServicePort) {
		return api.ConnectEither
	}
	return protocol
}

// servicePorts are the TCP ports of a Service that serve TLS, those that do not, and what its other
// ports are.
type servicePorts struct {
	secure []securePort
	plain  []corev1.ServicePort
	other  []string
	// upstreams and targets have the first secure port of each, and names of each bare name.
	upstreams, targets map[intstr.IntOrString]int32
	names              map[string]int
}

// split sorts the ports of a Service. A port at which TLS begins within a protocol counts as one that
// does not serve TLS.
func split(svc *corev1.Service) servicePorts {
	out := servicePorts{upstreams: map[intstr.IntOrString]int32{}, targets: map[intstr.IntOrString]int32{}, names: map[string]int{}}
	protocols := api.PortProtocols(svc)
	for i, p := range svc.Spec.Ports {
		switch {
		case cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP:
			out.other = append(out.other, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		case protocols[i] == starttls.TLS, protocols[i] == "" && api.ServesTLS(p):
			s := securePort{ServicePort: p, bare: withoutTLS(p.Name)}
			target := api.TargetPort(p)
			if asked, ok := api.ParseProxyPort(target.StrVal); ok && target.Type == intstr.String {
				s.upstream = asked.UpstreamPort()
				first(out.upstreams, s.upstream, p.Port)
			}
			first(out.targets, target, p.Port)
			first(out.names, s.bare, len(out.secure))
			out.secure = append(out.secure, s)
		default:
			out.plain = append(out.plain, p)
		}
	}
	return out
}

// TLSPorts returns the numbers of the Service's ports that serve TLS.
func TLSPorts(svc *corev1.Service) (out []int32) {
	for _, p := range split(svc).secure {
		out = append(out, p.Port)
	}
	return out
}

// first sets a key that is not set.
func first[K comparable, V any](m map[K]V, key K, value V) {
	if _, set := m[key]; !set {
		m[key] = value
	}
}

// twins returns what finds the number of the TLS port that leads to the same program as a plaintext port:
//
//   - the one whose targetPort requests a proxy in front of the port's targetPort, or is the same;
//   - the one whose name is that of the port with tls or https in place of http or beside it, if no
//     other port has a better claim to it;
//   - the only one, if the port is the only one in plaintext, the name of the TLS port says no more
//     than that it is TLS, and neither is for administration.
//
// The last two do not apply if the TLS port leads to another port of the program, or is for HTTP and the port is not.
func (s servicePorts) twins() func(p corev1.ServicePort) (int32, bool) {
	claims := s.claims()
	return func(p corev1.ServicePort) (int32, bool) {
		target := api.TargetPort(p)
		if port, ok := s.upstreams[target]; ok {
			return port, true
		}
		if port, ok := s.targets[target]; ok {
			return port, true
		}
		for _, name := range namesOfTLS(p) {
			if i, ok := s.names[name]; ok && (name == p.Name || claims.names[name] == 1) && !s.leads(i, p, claims) {
				return s.secure[i].Port, true
			}
		}
		if len(s.plain) != 1 || len(s.secure) != 1 || api.IsAdminPort(p) || api.IsAdminPort(s.secure[0].ServicePort) || s.leads(0, p, claims) {
			return 0, false
		}
		up := s.secure[0].upstream
		mixed := up != (intstr.IntOrString{}) && up.Type != target.Type // it cannot be known
		return s.secure[0].Port, !mixed && slices.Contains([]string{"", "http", "tls", "ssl", "https"}, s.secure[0].bare)
	}
}

// leads reports whether a TLS port leads to another program than a plaintext port, or to another protocol.
func (s servicePorts) leads(i int, p corev1.ServicePort, claims claims) bool {
	up := s.secure[i].upstream
	if up != (intstr.IntOrString{}) && (up.Type == api.TargetPort(p).Type || claims.targets[up]) {
		return true
	}
	isGRPC := strings.Contains(p.Name, "grpc") || p.AppProtocol != nil && strings.Contains(*p.AppProtocol, "grpc")
	return slices.Contains([]string{"http", "https"}, s.secure[i].bare) && (isGRPC || protocolOf(p, api.ConnectPlain) != api.ConnectHTTP)
}

// claims are the targetPorts of the plaintext ports, and how many of them have a name of namesOfTLS; a port whose whole
// name it is counts for two.
type claims struct {
	targets map[intstr.IntOrString]bool
	names   map[string]int
}

func (s servicePorts) claims() claims {
	c := claims{map[intstr.IntOrString]bool{}, map[string]int{}}
	for _, p := range s.plain {
		c.targets[api.TargetPort(p)] = true
		for _, name := range namesOfTLS(p) {
			if c.names[name]++; name == p.Name {
				c.names[name]++
			}
		}
	}
	return c
}

// namesOfTLS returns the names, without the word for TLS, of a TLS port that belongs to a plaintext port.
func namesOfTLS(p corev1.ServicePort) []string {
	if p.Name == "" {
		return nil
	}
	return slices.Compact([]string{p.Name, strings.TrimPrefix(p.Name, "http-"), strings.TrimSuffix(p.Name, "-http")})
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
