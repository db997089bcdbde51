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
	// DefaultDir is the directory of a node's state and logs.
	DefaultDir = "/var/lib/servingcert-node"
	// DefaultSubnet contains all addresses of a node.
	DefaultSubnet = "10.88.0.0/16"

	// nodeName is the Node's name.
	nodeName = "node"
	// maxDir is the maximum length of the directory's name: paths of Unix sockets below it have at
	// most 107 bytes.
	maxDir = 64
)

// layout contains the paths, addresses and names of a node. It depends only on the options, so that
// every process with the same options finds the node.
type layout struct {
	Dir string // absolute

	// Name is the name of the interface and the cgroup on the machine, and of the network namespace
	// for ip netns.
	Name string

	Subnet   netip.Prefix
	HostIP   netip.Addr   // the machine's end of the veth pair
	NodeIP   netip.Addr   // the node's end
	Link     netip.Prefix // of both ends
	Services netip.Prefix
	Pods     netip.Prefix
	APIIP    netip.Addr // ClusterIP of Service default/kubernetes
	DNSIP    netip.Addr // ClusterIP of Service kube-system/kube-dns

	// V6 are the IPv6 addresses; nil if the machine has no IPv6. The node is dual-stack then, and
	// IPv4 is its first family.
	V6 *addresses
}

// addresses are the addresses of one family.
type addresses struct {
	Subnet, Link, Services, Pods netip.Prefix
	HostIP, NodeIP               netip.Addr
}

// newLayout returns the layout of a node on this machine.
func newLayout(dir, subnet string) (layout, error) {
	l, err := layoutOf(dir, subnet)
	if disabled, readErr := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6"); err != nil || readErr != nil || strings.TrimSpace(string(disabled)) != "0" {
		l.V6 = nil
	}
	return l, err
}

// layoutOf returns the layout of a node on a machine with IPv6.
func layoutOf(dir, subnet string) (layout, error) {
	if dir == "" {
		dir = DefaultDir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, err
	}
	if len(dir) > maxDir {
		return layout{}, fmt.Errorf("directory %s: the name must have at most %d characters, not %d, as it will contain sockets", dir, maxDir, len(dir))
	}
	if dir == "/" || strings.ContainsAny(dir, " \t\n\"',:") {
		return layout{}, fmt.Errorf("directory %q: must not be /, or contain spaces, quotes, commas or colons, as it is written to configuration files", dir)
	}
	if subnet == "" {
		subnet = DefaultSubnet
	}
	prefix, err := netip.ParsePrefix(subnet)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() != 16 || prefix != prefix.Masked() || !prefix.Addr().IsPrivate() {
		return layout{}, fmt.Errorf("subnet %q: must be a private IPv4 network with prefix length 16, such as %s", subnet, DefaultSubnet)
	}
	b := prefix.Addr().As4()
	at := func(third, fourth byte) netip.Addr { return netip.AddrFrom4([4]byte{b[0], b[1], third, fourth}) }
	return layout{
		Dir:      dir,
		Name:     fmt.Sprintf("svcert-%d-%d", b[0], b[1]), // interface names have at most 15 characters
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

// v6 returns the IPv6 addresses of the node whose IPv4 subnet begins with these bytes: unique local
// ones (RFC 4193). The API server supports at most 20 bits for Services.
func v6(first, second byte) *addresses {
	at := func(part, last byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0xfd, 0x53, 0, 0x43, first, second, 7: part, 15: last})
	}
	return &addresses{
		Subnet: netip.PrefixFrom(at(0, 0), 48), Link: netip.PrefixFrom(at(0, 0), 126), HostIP: at(0, 1), NodeIP: at(0, 2),
		Services: netip.PrefixFrom(at(1, 0), 112), Pods: netip.PrefixFrom(at(2, 0), 64),
	}
}

// families joins the values of both families, or returns that of IPv4.
func (l layout) families(v4 fmt.Stringer, v6 func(addresses) fmt.Stringer) string {
	if l.V6 == nil {
		return v4.String()
	}
	return v4.String() + "," + v6(*l.V6).String()
}

// path returns a path below the node's directory.
func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.Dir}, elem...)...)
}

// apiServer returns kube-apiserver's URL, at the node's address, so that pods can connect to it and
// several nodes can run.
func (l layout) apiServer() string { return "https://" + l.at(6443) }

// at returns HOST:PORT of a port of the node.
func (l layout) at(port uint16) string { return netip.AddrPortFrom(l.NodeIP, port).String() }

func (l layout) containerdSocket() string { return l.path("run", "containerd.sock") }

// privateDirs returns the fixed paths of programs, and the directories that are mounted there in the
// node: the kubelet's sockets of device plugins and links to logs, the sockets of containerd's shims,
// and the cache of the CNI library.
func (l layout) privateDirs() map[string]string {
	return map[string]string{
		"/var/lib/kubelet":    l.path("kubelet"),
		"/var/log/containers": l.path("logs", "containers"),
		"/run/containerd":     l.path("run", "containerd"),
		"/var/lib/cni":        l.path("cni", "lib"),
	}
}

// overlap returns an error if one of the networks overlaps with the node's.
func (l layout) overlap(networks []netip.Prefix) error {
	for _, n := range networks {
		// The default route overlaps with everything, which is harmless.
		if n.Bits() > 0 && (n.Overlaps(l.Subnet) || l.V6 != nil && n.Overlaps(l.V6.Subnet)) {
			return fmt.Errorf("this machine has a route to %s, which overlaps with %s: choose another --subnet", n, l.families(l.Subnet, func(a addresses) fmt.Stringer { return a.Subnet }))
		}
	}
	return nil
}

var errNotRunning = errors.New("no node is running")
