package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// MaxConnects is the maximum number of outbound listeners.
const MaxConnects = 256

// A Mode is what an outbound listener waits for before it connects to the server.
type Mode string

// Modes of outbound listeners.
const (
	ModeAtOnce Mode = ""       // nothing: the server may send first
	ModeHTTP   Mode = "http"   // the client's first bytes
	ModeEither Mode = "either" // the client's first bytes, for at most Limits.FirstByte
)

// A Connect is one outbound listener of the proxy: it accepts connections of the pod's programs and makes
// TLS connections to a Service.
type Connect struct {
	// Name is the name in metrics, logs and errors: HOST:PORT, with the port of Local.
	Name string
	// Local is a loopback address other than 127.0.0.1, and the port to listen on. Of IPv6 there is
	// only ::1, where programs of the pod may listen too.
	Local netip.AddrPort
	// Host is the verified name of the server: SERVICE.NAMESPACE.svc.
	Host string
	// Port is the port of the Service.
	Port uint16
	Mode Mode
}

const connectSyntax = "ADDRESS:PORT=SERVICE.NAMESPACE.svc:PORT[,http|,either]"

// ParseConnect reads ADDRESS:PORT=SERVICE.NAMESPACE.svc:PORT[,http|,either]. The error quotes s.
func ParseConnect(s string) (Connect, error) {
	c, err := parseConnect(s)
	if err != nil {
		return Connect{}, fmt.Errorf("%q: %w: must be %s", s, err, connectSyntax)
	}
	return c, nil
}

func parseConnect(s string) (c Connect, err error) {
	rest, option, found := strings.Cut(s, ",")
	if found {
		if c.Mode = Mode(option); c.Mode != ModeHTTP && c.Mode != ModeEither {
			return c, fmt.Errorf("%q is not a valid option: must be http or either", option)
		}
	}
	local, server, found := strings.Cut(rest, "=")
	if !found {
		return c, errors.New("has no =")
	}
	if c.Local, err = parseLocal(local); err != nil {
		return c, err
	}
	host, port, found := strings.Cut(server, ":")
	if !found {
		return c, errors.New("has no : before the port of the Service")
	}
	if !validHost(host) {
		return c, fmt.Errorf("%q is not a valid host: must be SERVICE.NAMESPACE.svc", host)
	}
	if c.Port, err = parsePort(port); err != nil {
		return c, err
	}
	c.Host, c.Name = host, host+":"+strconv.Itoa(int(c.Local.Port()))
	return c, nil
}

// parseLocal reads ADDRESS:PORT. At 127.0.0.1 are the pod's own programs.
func parseLocal(s string) (netip.AddrPort, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return netip.AddrPort{}, errors.New("has no : before the port to listen on")
	}
	number, err := parsePort(s[colon+1:])
	if err != nil {
		return netip.AddrPort{}, err
	}
	local, err := netip.ParseAddrPort(s)
	if ip := local.Addr(); err != nil || !ip.IsLoopback() || ip.Is4In6() || ip.Zone() != "" || ip == localhost || local.String() != s {
		return netip.AddrPort{}, fmt.Errorf("%q is not a valid address: must be in 127.0.0.0/8, and not 127.0.0.1, or [::1]", s[:colon])
	}
	return netip.AddrPortFrom(local.Addr(), number), nil
}

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// validHost reports whether s is SERVICE.NAMESPACE.svc.
func validHost(s string) bool {
	labels := strings.Split(s, ".")
	return len(labels) == 3 && validLabel(labels[0]) && validLabel(labels[1]) && labels[2] == "svc"
}

// validLabel reports whether s is a label of RFC 1123, as names of Services and namespaces are
// (IsDNS1123Label of apimachinery).
func validLabel(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// CheckClusterDomain returns an error if s is not a valid domain.
func CheckClusterDomain(s string) error {
	for label := range strings.SplitSeq(s, ".") {
		if !validLabel(label) || len(s) > maxDomain {
			return fmt.Errorf("--cluster-domain: %q: must be a domain such as cluster.local, without a dot at the end", s)
		}
	}
	return nil
}

// maxDomain is the length of a domain with which every name of a Service fits into a name of DNS.
const maxDomain = 253 - len("..svc.") - 2*63

// checkConnects returns an error if two outbound listeners have the same address or name, or if one has an address on
// which something else of the proxy listens.
func checkConnects(connects []Connect, inbound []Listen, admin netip.AddrPort) error {
	if len(connects) > MaxConnects {
		return fmt.Errorf("--connect: is set %d times: must be at most %d", len(connects), MaxConnects)
	}
	ports := map[uint16]string{}
	for _, l := range inbound {
		ports[l.Port] = l.Name
	}
	locals, names := map[netip.AddrPort]string{}, map[string]bool{}
	for _, c := range connects {
		other, ok := locals[c.Local]
		switch {
		case ok:
			return fmt.Errorf("--connect %s: %s is also used by --connect %s", c.Name, c.Local, other)
		case names[c.Name]:
			return fmt.Errorf("--connect %s: must be set once for each Service and port to listen on", c.Name)
		case c.Local == admin:
			return fmt.Errorf("--connect %s: %s is also used by --admin-address", c.Name, c.Local)
		case ports[c.Local.Port()] != "": // which listens on all addresses
			return fmt.Errorf("--connect %s: port %d is also used by --listen %s", c.Name, c.Local.Port(), ports[c.Local.Port()])
		}
		locals[c.Local], names[c.Name] = c.Name, true
	}
	return nil
}
