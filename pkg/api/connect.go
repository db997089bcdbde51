package api

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// AnnotationConnect lists Services. The proxy of the pod makes the calls of the pod's programs to
// their plaintext ports, over TLS. An entry is SERVICE, SERVICE.NAMESPACE or one of them with :PORT,
// or ConnectAll. ConnectNone alone means none, whatever Service and Namespace list.
const AnnotationConnect = Domain + "/connect"

// Bounds of AnnotationConnect, and of the ports of all Services that it lists.
const (
	MaxConnects     = 64
	MaxConnectPorts = 256

	maxConnect = MaxConnects*len(", :65535.") + MaxConnects*2*validation.DNS1123LabelMaxLength // bytes
)

// A Connect is an entry of AnnotationConnect. It is zero for "*".
type Connect struct {
	Service string
	// Namespace is empty for that of the pod.
	Namespace string
	// Port is the only port of the Service that is meant, or 0 for all.
	Port int32
}

// ConnectAll is the entry of AnnotationConnect for each Service of the pod's namespace that requests
// a certificate.
const ConnectAll = "*"

// ConnectNone is the value of AnnotationConnect for no Service.
const ConnectNone = "none"

// String returns the entry as it is written in AnnotationConnect.
func (c Connect) String() string {
	if c == (Connect{}) {
		return ConnectAll
	}
	out := c.Service
	if c.Namespace != "" {
		out += "." + c.Namespace
	}
	if c.Port != 0 {
		out += ":" + strconv.Itoa(int(c.Port))
	}
	return out
}

// FormatConnect returns the value of AnnotationConnect with these entries.
func FormatConnect(entries []Connect) string {
	out := make([]string, len(entries))
	for i, c := range entries {
		out[i] = c.String()
	}
	return strings.Join(out, ", ")
}

// parseConnect parses AnnotationConnect.
func parseConnect(s *Settings, value string) string {
	s.Connect = []Connect{}
	seen, entries := map[Connect]bool{}, splitNames(value)
	if slices.Contains(entries, ConnectNone) {
		if len(entries) > 1 {
			return strconv.Quote(ConnectNone) + " must be alone; a Service of that name is " + ConnectNone + ".NAMESPACE"
		}
		return ""
	}
	for _, entry := range entries {
		c := Connect{}
		if entry != ConnectAll {
			name, port, _ := strings.Cut(entry, ":")
			n, _ := strconv.ParseUint(port, 10, 16)
			c.Port = int32(n)
			c.Service, c.Namespace, _ = strings.Cut(name, ".")
		}
		if !seen[c] {
			seen[c] = true
			s.Connect = append(s.Connect, c)
		}
	}
	return ""
}

// ConnectProtocol is how the proxy treats connections to one of its loopback ports.
type ConnectProtocol string

// The values of ConnectProtocol.
const (
	// ConnectPlain: the proxy connects to the server at once, which may send first.
	ConnectPlain ConnectProtocol = ""
	// ConnectHTTP: the client sends first. TLS of the client itself is passed on.
	ConnectHTTP ConnectProtocol = "http"
	// ConnectEither: like ConnectHTTP if the client sends first, and like ConnectPlain if it
	// does not for some seconds.
	ConnectEither ConnectProtocol = "either"
)

// A ProxyConnect is a loopback port on which a proxy accepts the calls of the pod's programs to a
// port of a Service.
type ProxyConnect struct {
	// Address is a loopback address ([ConnectAddress], or ::1), which the Service's names have in
	// the pod, and Port the port that the programs call.
	Address string
	Port    int32
	// Host is the Service as SERVICE.NAMESPACE.svc, and TLSPort its port for TLS.
	Host     string
	TLSPort  int32
	Protocol ConnectProtocol
}

// ProxyFlagConnect is the proxy's flag for a ProxyConnect. It may be repeated. ProxyFlagCAFile is
// the flag for the file with the roots that verify the servers, and ProxyFlagClusterDomain that
// for the domain of Services.
const (
	ProxyFlagConnect       = "--connect"
	ProxyFlagCAFile        = "--ca-file"
	ProxyFlagClusterDomain = "--cluster-domain"
	// ProxyFlagIdentity is the flag for the file with the pod's key and client certificate, which the
	// proxy presents to the servers.
	ProxyFlagIdentity = "--identity"
	// ProxyFlagCheck makes the program ask a running proxy whether it is ready.
	ProxyFlagCheck = "--check"
)

// String returns the value of ProxyFlagConnect:
//
//	ADDRESS:PORT=HOST:PORT[,http|,either]
func (c ProxyConnect) String() string {
	out := net.JoinHostPort(c.Address, strconv.Itoa(int(c.Port))) + "=" + c.Host + ":" + strconv.Itoa(int(c.TLSPort))
	if c.Protocol != ConnectPlain {
		out += "," + string(c.Protocol)
	}
	return out
}

// maxProxyConnect is above the length of the longest value that String returns: two labels of 63 bytes.
const maxProxyConnect = 200

// ParseProxyConnect reads what String returns; false for any other value.
func ParseProxyConnect(value string) (ProxyConnect, bool) {
	if len(value) > maxProxyConnect {
		return ProxyConnect{}, false
	}
	rest, protocol, _ := strings.Cut(value, ",")
	local, remote, _ := strings.Cut(rest, "=")
	c := ProxyConnect{Protocol: ConnectProtocol(protocol)}
	address, err := netip.ParseAddrPort(local)
	host, port, _ := strings.Cut(remote, ":")
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 || address.Port() == 0 || !isConnectAddress(address.Addr()) {
		return ProxyConnect{}, false
	}
	c.Address, c.Port, c.Host, c.TLSPort = address.Addr().String(), int32(address.Port()), host, int32(n)
	service, isService := strings.CutSuffix(host, ".svc")
	if !isService || strings.Count(service, ".") != 1 || !IsSubdomain(service) || c.String() != value {
		return ProxyConnect{}, false
	}
	switch c.Protocol {
	case ConnectPlain, ConnectHTTP, ConnectEither:
		return c, true
	}
	return ProxyConnect{}, false
}

// connectNetwork has the loopback addresses of Services in a pod. All of 127.0.0.0/8 is local on Linux;
// of IPv6, only ::1.
var connectNetwork = netip.MustParsePrefix("127.1.0.0/16")

// ConnectAddress returns the loopback address of a pod's Service with a number, from 1 to MaxConnects.
func ConnectAddress(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1, 0, byte(number)})
}

func isConnectAddress(a netip.Addr) bool {
	return connectNetwork.Contains(a) || a == netip.IPv6Loopback()
}
