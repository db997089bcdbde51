package probe

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// The causes for which an address is not dialled. Whoever may write pods/status controls a pod's
// address. The causes are a label of servingcert_dials_refused_total.
const (
	CauseLoopback    Cause = "loopback"
	CauseLinkLocal   Cause = "link_local" // including the metadata services of most clouds
	CauseMetadata    Cause = "metadata"   // the metadata service of another cloud
	CauseMulticast   Cause = "multicast"  // or broadcast
	CauseUnspecified Cause = "unspecified"
	CauseTranslated  Cause = "translated" // of a network's own NAT64, for any IPv4 address
	CauseAPIServer   Cause = "api_server"
	CauseNotNode     Cause = "not_node"     // the pod is on the host network, but the address is not its node's
	CauseOutside     Cause = "outside_cidr" // outside all ranges
)

// why explains the causes, for people.
var why = map[Cause]string{
	CauseLoopback:    "its address is a loopback address",
	CauseLinkLocal:   "its address is a link-local address",
	CauseMetadata:    "its address is that of a cloud's metadata service",
	CauseMulticast:   "its address is a multicast or broadcast address",
	CauseUnspecified: "its address is the unspecified address",
	CauseTranslated:  "its address is translated to an IPv4 address by a NAT64",
	CauseAPIServer:   "its address is the API server's",
	CauseNotNode:     "it is on the host network, and its address is not its node's",
	CauseOutside:     "its address is outside --pod-cidrs",
	CauseManyPorts:   "at most " + strconv.Itoa(MaxPorts) + " ports of a pod are dialled for a Secret, and fewer if it mounts more than 8 Secrets: those with the lowest numbers",
	CausePanic:       "its answer could not be read; see the rotator's log for the location of the error",
	CauseProtocol:    "its answer in protocol {protocol}, before TLS, was not understood: the port speaks another protocol, or the server has an error",
	CauseDeclined:    "it offers no TLS in protocol {protocol}",
}

// Why explains the cause of kind NotVerified or Plaintext, as part of a sentence. p is the protocol
// of the dial.
func (c Cause) Why(p starttls.Protocol) string {
	return strings.Replace(why[c], "{protocol}", string(p), 1)
}

// Addresses decides which addresses of pods are dialled. The zero Addresses permits all except
// those that no pod has.
type Addresses struct {
	// Ranges are the addresses of pods; empty: any.
	Ranges []netip.Prefix
	// APIServer has the known addresses of the API server.
	APIServer []netip.Addr
}

// Refuse returns why the target's address is not dialled, or "" if it is.
//
// A loopback, link-local or metadata address is dialled only if a range contains no other kind of
// address: 127.0.0.0/8 permits it, 0.0.0.0/0 does not.
func (a Addresses) Refuse(v Target) Cause {
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
	case slices.ContainsFunc(a.APIServer, func(s netip.Addr) bool { return plain(s) == inside(address) }):
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
	// Services with credentials or settings of a machine, at an address that is not link-local, as
	// documented by each cloud.
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
	// Each network decides where the IPv4 address is in it (RFC 8215).
	CauseTranslated: prefixes("64:ff9b:1::/48"),
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// kindOf returns the kind of a special address that no pod has, or "".
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
		return kindOf(inside(a))
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

// inside returns the IPv4 address that a 6to4 address contains, or else the address.
func inside(a netip.Addr) netip.Addr {
	if !tunnelled.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[2:]))
}

// plain returns the IPv4 address that an IPv6 address contains, or else the address without its
// zone.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	embeds := slices.ContainsFunc(embedding, func(p netip.Prefix) bool { return p.Contains(a) })
	if !embeds || a == netip.IPv6Unspecified() || a == netip.IPv6Loopback() {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
