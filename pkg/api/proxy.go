package api

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ProxyContainer is the name of the native sidecar that the webhook adds to a pod whose
// Services request a proxy ([ParseProxyPort]), or that connects to others ([AnnotationConnect]).
const ProxyContainer = "servingcert-proxy"

// Flags of the proxy. Their values follow an equals sign.
const (
	ProxyFlagListen  = "--listen"        // a ProxyListener; may be repeated
	ProxyFlagCertDir = "--cert-dir"      // the directory with tls.crt and tls.key
	ProxyFlagAdmin   = "--admin-address" // IP:PORT
	// ProxyFlagClients is the flag for the file that lists which clients each listener admits, and
	// ProxyFlagClientCA that for the file with the roots that verify them.
	ProxyFlagClients  = "--clients"
	ProxyFlagClientCA = "--client-ca"
)

// A ProxyListener is one port on which a proxy listens.
type ProxyListener struct {
	// Name is the name of the port, the targetPort of a Service; see [ProxyPort].
	Name string
	// Port is where the proxy listens, and Upstream the port of the program.
	Port, Upstream int32
	// H2: if a client offers both, HTTP/2 is preferred to HTTP/1.1.
	H2 bool
	// V2: connections to the program begin with a header of the PROXY protocol, version 2.
	V2 bool
}

// Options of a listener, after its ports.
const (
	listenH2 = "h2"
	listenV2 = "proxy-v2"
)

// String returns the listener as a value of the proxy's flag:
//
//	NAME=PORT:UPSTREAM[,h2][,proxy-v2]
func (l ProxyListener) String() string {
	out := l.Name + "=" + strconv.Itoa(int(l.Port)) + ":" + strconv.Itoa(int(l.Upstream))
	if l.H2 {
		out += "," + listenH2
	}
	if l.V2 {
		out += "," + listenV2
	}
	return out
}

// maxListener is the length of the longest value that String returns.
const maxListener = len(proxyTLS + "12345678=65535:65535," + listenH2 + "," + listenV2)

// ParseProxyListener reads what String returns; false for any other value.
func ParseProxyListener(value string) (ProxyListener, bool) {
	if len(value) > maxListener {
		return ProxyListener{}, false
	}
	parts := strings.Split(value, ",")
	name, ports, _ := strings.Cut(parts[0], "=")
	port, upstream, _ := strings.Cut(ports, ":")
	l := ProxyListener{Name: name, H2: slices.Contains(parts[1:], listenH2), V2: slices.Contains(parts[1:], listenV2)}
	for i, text := range []string{port, upstream} {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return ProxyListener{}, false
		}
		*[]*int32{&l.Port, &l.Upstream}[i] = int32(n)
	}
	if _, ok := ParseProxyPort(name); !ok || l.String() != value {
		return ProxyListener{}, false
	}
	return l, true
}

// Proxy is the proxy of a pod.
type Proxy struct {
	ContainerRef
	Listeners []ProxyListener
	Connects  []ProxyConnect
	// Admin is the administration port, or 0.
	Admin int32
}

// Has reports whether the proxy has the flag, with a value. The zero Proxy has none.
func (p Proxy) Has(flag string) bool {
	return p.Container != nil && slices.ContainsFunc(p.Args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
}

// ProxyOf returns the proxy in a pod's spec: the native sidecar named ProxyContainer that has a
// listener or a connect; false if there is none. Those beyond MaxProxyPorts and MaxConnectPorts are
// ignored.
func ProxyOf(pod *corev1.Pod) (Proxy, bool) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name != ProxyContainer || c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			continue
		}
		p := Proxy{ContainerRef: ContainerRef{Container: c, Init: true, Index: i}}
		for _, arg := range c.Args {
			if value, is := strings.CutPrefix(arg, ProxyFlagListen+"="); is && len(p.Listeners) < MaxProxyPorts {
				if l, ok := ParseProxyListener(value); ok {
					p.Listeners = append(p.Listeners, l)
				}
			}
			if value, is := strings.CutPrefix(arg, ProxyFlagConnect+"="); is && len(p.Connects) < MaxConnectPorts {
				if c, ok := ParseProxyConnect(value); ok {
					p.Connects = append(p.Connects, c)
				}
			}
			if address, is := strings.CutPrefix(arg, ProxyFlagAdmin+"="); is && len(address) <= maxValue {
				n, _ := strconv.ParseUint(address[strings.LastIndexByte(address, ':')+1:], 10, 16)
				p.Admin = int32(n)
			}
		}
		return p, len(p.Listeners)+len(p.Connects) > 0
	}
	return Proxy{}, false
}

// parseProxyProtocol parses AnnotationProxyProtocol.
func parseProxyProtocol(s *Settings, v string) string {
	for _, entry := range splitNames(v) {
		port, err := strconv.ParseUint(entry, 10, 16)
		if err != nil {
			return err.Error()
		}
		if !slices.Contains(s.ProxyProtocol, int32(port)) {
			s.ProxyProtocol = append(s.ProxyProtocol, int32(port))
		}
	}
	return ""
}

// CheckImage returns what is wrong with the name of a container's image and what is allowed,
// or "". It rejects what the API server or every container runtime rejects.
func CheckImage(image string) string {
	if image == "" || strings.ContainsFunc(image, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "must be an image such as registry.example/servingcert/proxy@sha256:…, without spaces"
	}
	return ""
}
