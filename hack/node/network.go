package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// connect creates the veth pair between the machine and the node, with a route on each side.
func (n *Node) connect(ctx context.Context) error {
	pids, err := running(n.Dir)
	if err != nil {
		return err
	}
	pid := pids[holder]
	link := func(ip netip.Addr, link netip.Prefix) string { return netip.PrefixFrom(ip, link.Bits()).String() }
	outside := [][]string{
		{"link", "add", n.Name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)},
		{"link", "set", n.Name, "alias", n.Dir}, // the owner; see checkOwner
		{"address", "add", link(n.HostIP, n.Link), "dev", n.Name},
		{"link", "set", n.Name, "up"},
		{"route", "add", n.Subnet.String(), "via", n.NodeIP.String(), "dev", n.Name},
	}
	inside := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", link(n.NodeIP, n.Link), "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", n.HostIP.String()},
		{"sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"},
	}
	if v6 := n.V6; v6 != nil { // nodad: the addresses are unique, so the detection of duplicates would only take a second
		outside = append(outside,
			[]string{"address", "add", link(v6.HostIP, v6.Link), "dev", n.Name, "nodad"},
			[]string{"route", "add", v6.Subnet.String(), "via", v6.NodeIP.String(), "dev", n.Name})
		inside = append(inside,
			[]string{"ip", "address", "add", link(v6.NodeIP, v6.Link), "dev", "eth0", "nodad"},
			[]string{"ip", "route", "add", "default", "via", v6.HostIP.String()},
			[]string{"sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad"})
	}
	for _, args := range outside {
		if err := run(exec.CommandContext(ctx, "ip", args...)); err != nil {
			return err
		}
	}
	for _, args := range inside {
		if err := run(n.enter(ctx, pid, args...)); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner returns an error if a node in another directory has the same subnet. The alias of the
// interface is the owner's directory.
func (l layout) checkOwner() error {
	alias, err := os.ReadFile(filepath.Join("/sys/class/net", l.Name, "ifalias"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if owner := strings.TrimSpace(string(alias)); owner != "" && owner != l.Dir {
		return fmt.Errorf("subnet %s is used by the node in %q: stop that node, or choose another --subnet", l.Subnet, owner)
	}
	return nil
}

// disconnect removes the veth pair, and with it the route. They would disappear with the node's
// network namespace, but sockets of broken connections can keep that for minutes.
func (l layout) disconnect(ctx context.Context) error {
	if _, err := net.InterfaceByName(l.Name); err != nil {
		return nil //nolint:nilerr // already removed
	}
	err := run(exec.CommandContext(ctx, "ip", "link", "delete", l.Name))
	if _, gone := net.InterfaceByName(l.Name); gone != nil {
		return nil //nolint:nilerr // removed meanwhile
	}
	return err
}

// run runs a command. Its error contains the output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// checkRoutes returns an error if this machine uses the subnet otherwise.
func (l layout) checkRoutes(ctx context.Context) error {
	var all []netip.Prefix
	for _, family := range []string{"-4", "-6"} {
		out, err := exec.CommandContext(ctx, "ip", family, "route", "show").Output()
		if err != nil {
			return fmt.Errorf("ip %s route show: %w", family, err)
		}
		all = append(all, routes(string(out))...)
	}
	return l.overlap(all)
}

// routes returns the destinations in the output of ip route show.
func routes(out string) []netip.Prefix {
	var found []netip.Prefix
	for line := range strings.Lines(out) {
		for _, field := range strings.Fields(line)[:min(2, len(strings.Fields(line)))] { // a type may precede it
			if prefix, err := netip.ParsePrefix(field); err == nil {
				found = append(found, prefix)
				break
			}
			if addr, err := netip.ParseAddr(field); err == nil {
				found = append(found, netip.PrefixFrom(addr, addr.BitLen()))
				break
			}
		}
	}
	return found
}
