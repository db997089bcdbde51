package probe

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// The causes for which an address is not dialled. Who may write pods/status decides what
// address a pod has. They are a label of servingcert_visits_refused_total.
const (
	CauseLoopback    Cause = "loopback"
	CauseLinkLocal   Cause = "link_local" // the metadata services of most clouds are among them
	CauseMetadata    Cause = "metadata"   // that of one of the other clouds
	CauseMulticast   Cause = "multicast"  // or broadcast
	CauseUnspecified Cause = "unspecified"
	CauseTranslated  Cause = "translated" // of a network's own NAT64, whatever IPv4 address it stands for
	CauseAPIServer   Cause = "api_server"
	CauseNotNode     Cause = "not_node"     // not the node's own, and the pod is on the host network
	CauseOutside     Cause = "outside_cidr" // in none of the ranges
)

// why says what is wrong with an address, for people.
var why = map[Cause]string{
	CauseLoopback:    "its address is a loopback address",
	CauseLinkLocal:   "its address is a link-local address",
	CauseMetadata:    "its address is that of a cloud's metadata service",
	CauseMulticast:   "its address is a multicast or broadcast address",
	CauseUnspecified: "its address is the unspecified address",
	CauseTranslated:  "its address stands for an IPv4 address behind a NAT64",
	CauseAPIServer:   "its address is the API server's",
	CauseNotNode:     "it is on the host network, and its address is not its node's",
	CauseOutside:     "its address is in none of --pod-cidrs",
	CauseManyPorts:   "at most " + strconv.Itoa(MaxPorts) + " ports of a pod are dialled, those with the lowest numbers",
	CausePanic:       "its answer could not be read, and the rotator's log says where that failed",
	CauseWords:       "what it answered in protocol {protocol}, before TLS, was not understood: the port speaks another one, or the server has an error",
	CauseDeclined:    "asked in protocol {protocol}, it offers no TLS",
}

// Why says for a pod of kind NotVerified or Plaintext what the cause is, as part of a sentence.
// The protocol is that in which it was asked.
func (c Cause) Why(p starttls.Protocol) string {
	return strings.Replace(why[c], "{protocol}", string(p), 1)
}

// Addresses says which addresses of pods are dialled. The zero Addresses permits all
// but those that are never a pod's.
type Addresses struct {
	// Ranges are those that pods have addresses in; none: any.
	Ranges []netip.Prefix
	// APIServer is its addresses, as far as they are known.
	APIServer []netip.Addr
}

// Refuse returns why the visit's address is not dialled, or "" if it is.
//
// A loopback or link-local address, or a metadata service's, is dialled only if one of the
// ranges holds nothing else: 127.0.0.0/8 permits what 0.0.0.0/0 does not.
func (a Addresses) Refuse(v Visit) Cause {
	address := plain(v.Address)
	inRange := func(r netip.Prefix) bool { return r.Contains(address) }
	if special := kindOf(address); special != "" {
		named := func(r netip.Prefix) bool {
			return inRange(r) && slices.ContainsFunc(permissible[special], func(p netip.Prefix) bool { return p.Contains(r.Addr()) && p.Bits() <= r.Bits() })
		}
		if !slices.ContainsFunc(a.Ranges, named) {
			return special
		}
	}
	switch {
	case slices.ContainsFunc(a.APIServer, func(s netip.Addr) bool { return plain(s) == address }):
		return CauseAPIServer
	case v.HostNetwork && !v.OnNode:
		return CauseNotNode
	case v.HostNetwork:
		return ""
	case len(a.Ranges) > 0 && !slices.ContainsFunc(a.Ranges, inRange):
		return CauseOutside
	}
	return ""
}

// permissible are the special addresses that are dialled if a range names them.
var permissible = map[Cause][]netip.Prefix{
	CauseLoopback:  prefixes("127.0.0.0/8", "::1/128"),
	CauseLinkLocal: prefixes("169.254.0.0/16", "fe80::/10"),
	// What hands out credentials or settings to whatever runs on a machine, at an address
	// that is not link-local. The documentation of each cloud names its own.
	CauseMetadata: prefixes(
		"168.63.129.16/32",       // Azure's WireServer
		"fd00:ec2::/32",          // AWS: metadata, DNS, time, and credentials of pods, by IPv6
		"fd20:ce::254/128",       // Google Cloud by IPv6
		"100.100.100.200/32",     // Alibaba Cloud
		"192.0.0.192/32",         // Oracle Cloud's older generation
		"fd00:42::42/128",        // Scaleway by IPv6
		"fd00:c1::a9fe:a9fe/128", // Oracle Cloud by IPv6
		"fd00:a9fe:a9fe::1/128",  // Akamai by IPv6
		"fd00:100::100:200/128",  // Alibaba Cloud by IPv6
	),
	// Where in it the IPv4 address is, each network decides (RFC 8215).
	CauseTranslated: prefixes("64:ff9b:1::/48"),
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// kindOf returns which address it is that no pod has by itself, or "".
func kindOf(a netip.Addr) Cause {
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return CauseUnspecified
	case a.IsLoopback():
		return CauseLoopback
	case a.IsLinkLocalUnicast():
		return CauseLinkLocal
	case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return CauseMulticast
	case a.Is4() && a.As4()[0] == 0: // 0.0.0.0/8 is this host
		return CauseUnspecified
	case tunnelled.Contains(a):
		b := a.As16()
		return kindOf(netip.AddrFrom4([4]byte(b[2:])))
	}
	for _, cause := range []Cause{CauseMetadata, CauseTranslated} {
		if slices.ContainsFunc(permissible[cause], func(p netip.Prefix) bool { return p.Contains(a) }) {
			return cause
		}
	}
	return ""
}

// Ranges of IPv6 addresses whose last 32 bits are an IPv4 address (RFC 4291, 7915, 6052).
var embedding = prefixes("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")

// tunnelled is the range of 6to4, in which an IPv4 address follows the first 16 bits (RFC 3056).
var tunnelled = netip.MustParsePrefix("2002::/16")

// plain returns the IPv4 address that an IPv6 address stands for, or else the address
// without its zone.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	embeds := slices.ContainsFunc(embedding, func(p netip.Prefix) bool { return p.Contains(a) })
	if !embeds || a == netip.IPv6Unspecified() || a == netip.IPv6Loopback() {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
