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

// connect lays the cable between the machine and the node, with a route on each side.
func (n *Node) connect(ctx context.Context) error {
	pids, err := running(n.Dir)
	if err != nil {
		return err
	}
	pid := pids[holder]
	link := func(ip netip.Addr) string { return netip.PrefixFrom(ip, n.Link.Bits()).String() }
	for _, args := range [][]string{
		{"link", "add", n.Name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)},
		{"link", "set", n.Name, "alias", n.Dir}, // whose it is; see checkOwner
		{"address", "add", link(n.HostIP), "dev", n.Name},
		{"link", "set", n.Name, "up"},
		{"route", "add", n.Subnet.String(), "via", n.NodeIP.String(), "dev", n.Name},
	} {
		if err := run(exec.CommandContext(ctx, "ip", args...)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", link(n.NodeIP), "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", n.HostIP.String()},
		{"sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"},
	} {
		if err := run(n.enter(ctx, pid, args...)); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner refuses what is of a node in another directory, which has the same subnet:
// the cable says whose it is.
func (l layout) checkOwner() error {
	alias, err := os.ReadFile(filepath.Join("/sys/class/net", l.Name, "ifalias"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if owner := strings.TrimSpace(string(alias)); owner != "" && owner != l.Dir {
		return fmt.Errorf("subnet %s is that of the node in %q: end that one, or choose another --subnet", l.Subnet, owner)
	}
	return nil
}

// disconnect removes the cable, and with it the route. It goes with the node's network
// namespace too, but that one stays for minutes if connections into it were cut:
// their sockets send into the void until they give up.
func (l layout) disconnect(ctx context.Context) error {
	if _, err := net.InterfaceByName(l.Name); err != nil {
		return nil //nolint:nilerr // it is gone already
	}
	err := run(exec.CommandContext(ctx, "ip", "link", "delete", l.Name))
	if _, gone := net.InterfaceByName(l.Name); gone != nil {
		return nil //nolint:nilerr // it has gone meanwhile
	}
	return err
}

// run runs a command; its error says what the command complained of.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// checkRoutes refuses a subnet that this machine uses otherwise.
func (l layout) checkRoutes(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "ip", "-4", "route", "show").Output()
	if err != nil {
		return fmt.Errorf("ip -4 route show: %w", err)
	}
	return l.overlap(routes(string(out)))
}

// routes are the destinations that ip route show lists.
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
