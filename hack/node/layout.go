package node

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

const (
	// DefaultDir holds a node's state and logs.
	DefaultDir = "/var/lib/servingcert-node"
	// DefaultSubnet holds all addresses of a node.
	DefaultSubnet = "10.88.0.0/16"

	// nodeName is the Node's name.
	nodeName = "node"
	// maxDir is how long the directory's name may be: the paths of Unix sockets below
	// it may have 107 bytes.
	maxDir = 64
)

// layout is where everything of a node is: files, addresses, names. It follows from
// the options alone, so every process that knows these finds the node.
type layout struct {
	Dir string // absolute

	// Name is the name of what is visible on the machine: the cable's end, the
	// cgroup, and the network namespace for ip netns.
	Name string

	Subnet   netip.Prefix
	HostIP   netip.Addr   // the machine's end of the cable
	NodeIP   netip.Addr   // the node's end
	Link     netip.Prefix // of the two
	Services netip.Prefix
	Pods     netip.Prefix
	APIIP    netip.Addr // ClusterIP of Service default/kubernetes
	DNSIP    netip.Addr // ClusterIP of Service kube-system/kube-dns

	// V6 are the same in IPv6; nil if the machine has none. The node is dual-stack then, and IPv4
	// is its first family.
	V6 *addresses
}

// addresses are those of one family, as in a layout.
type addresses struct {
	Subnet, Link, Services, Pods netip.Prefix
	HostIP, NodeIP               netip.Addr
}

// newLayout is the layout of a node on this machine.
func newLayout(dir, subnet string) (layout, error) {
	l, err := layoutOf(dir, subnet)
	if disabled, readErr := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6"); err != nil || readErr != nil || strings.TrimSpace(string(disabled)) != "0" {
		l.V6 = nil
	}
	return l, err
}

// layoutOf is the layout on a machine that has IPv6.
func layoutOf(dir, subnet string) (layout, error) {
	if dir == "" {
		dir = DefaultDir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, err
	}
	if len(dir) > maxDir {
		return layout{}, fmt.Errorf("directory %s: sockets lie in it, so its name may have %d characters, not %d", dir, maxDir, len(dir))
	}
	if dir == "/" || strings.ContainsAny(dir, " \t\n\"',:") {
		return layout{}, fmt.Errorf("directory %q: it is written into configuration files, so no spaces, quotes, commas or colons, and not /", dir)
	}
	if subnet == "" {
		subnet = DefaultSubnet
	}
	prefix, err := netip.ParsePrefix(subnet)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() != 16 || prefix != prefix.Masked() || !prefix.Addr().IsPrivate() {
		return layout{}, fmt.Errorf("subnet %q: want a private IPv4 network of 16 bits such as %s", subnet, DefaultSubnet)
	}
	b := prefix.Addr().As4()
	at := func(third, fourth byte) netip.Addr { return netip.AddrFrom4([4]byte{b[0], b[1], third, fourth}) }
	return layout{
		Dir:      dir,
		Name:     fmt.Sprintf("svcert-%d-%d", b[0], b[1]), // an interface's name has 15 characters
		Subnet:   prefix,
		HostIP:   at(0, 1),
		NodeIP:   at(0, 2),
		Link:     netip.PrefixFrom(at(0, 0), 30),
		Services: netip.PrefixFrom(at(64, 0), 18),
		Pods:     netip.PrefixFrom(at(128, 0), 17),
		APIIP:    at(64, 1),
		DNSIP:    at(64, 10),
		V6:       v6(b[0], b[1]),
	}, nil
}

// v6 are the addresses in IPv6 of the node whose subnet in IPv4 begins with two bytes: unique local
// ones (RFC 4193). No API server takes more than 20 bits for Services.
func v6(first, second byte) *addresses {
	at := func(part, last byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0xfd, 0x53, 0, 0x43, first, second, 7: part, 15: last})
	}
	return &addresses{
		Subnet: netip.PrefixFrom(at(0, 0), 48), Link: netip.PrefixFrom(at(0, 0), 126), HostIP: at(0, 1), NodeIP: at(0, 2),
		Services: netip.PrefixFrom(at(1, 0), 112), Pods: netip.PrefixFrom(at(2, 0), 64),
	}
}

// families joins what is given of both families, or of IPv4 alone.
func (l layout) families(v4 fmt.Stringer, v6 func(addresses) fmt.Stringer) string {
	if l.V6 == nil {
		return v4.String()
	}
	return v4.String() + "," + v6(*l.V6).String()
}

// path is a path below the node's directory.
func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.Dir}, elem...)...)
}

// apiServer is kube-apiserver's address. It listens at the node's own, so that pods
// reach it and several nodes can run at once.
func (l layout) apiServer() string { return "https://" + l.at(6443) }

// at is a port of the node.
func (l layout) at(port uint16) string { return netip.AddrPortFrom(l.NodeIP, port).String() }

func (l layout) containerdSocket() string { return l.path("run", "containerd.sock") }

// privateDirs are the directories that programs insist on, and what they are inside
// of the node. Fixed are: in kubelet the sockets of device plugins and the links to
// logs, in containerd the sockets of its shims, in the CNI library its cache.
func (l layout) privateDirs() map[string]string {
	return map[string]string{
		"/var/lib/kubelet":    l.path("kubelet"),
		"/var/log/containers": l.path("logs", "containers"),
		"/run/containerd":     l.path("run", "containerd"),
		"/var/lib/cni":        l.path("cni", "lib"),
	}
}

// overlap returns the first of the networks that shares addresses with the node's.
func (l layout) overlap(networks []netip.Prefix) error {
	for _, n := range networks {
		// The default route overlaps with everything and is in nobody's way.
		if n.Bits() > 0 && (n.Overlaps(l.Subnet) || l.V6 != nil && n.Overlaps(l.V6.Subnet)) {
			return fmt.Errorf("this machine has a route to %s, which overlaps with %s: choose another --subnet", n, l.families(l.Subnet, func(a addresses) fmt.Stringer { return a.Subnet }))
		}
	}
	return nil
}

var errNotRunning = errors.New("no node is running")
