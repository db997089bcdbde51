package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	l, err := layoutOf("", "")
	require.NoError(t, err)
	require.Equal(t, layout{
		Dir: "/var/lib/servingcert-node", Name: "svcert-10-88",
		Subnet: netip.MustParsePrefix("10.88.0.0/16"),
		HostIP: netip.MustParseAddr("10.88.0.1"), NodeIP: netip.MustParseAddr("10.88.0.2"),
		Link:     netip.MustParsePrefix("10.88.0.0/30"),
		Services: netip.MustParsePrefix("10.88.64.0/18"),
		Pods:     netip.MustParsePrefix("10.88.128.0/17"),
		APIIP:    netip.MustParseAddr("10.88.64.1"), DNSIP: netip.MustParseAddr("10.88.64.10"),
		V6: &addresses{
			Subnet: netip.MustParsePrefix("fd53:43:a58::/48"), Link: netip.MustParsePrefix("fd53:43:a58::/126"),
			HostIP: netip.MustParseAddr("fd53:43:a58::1"), NodeIP: netip.MustParseAddr("fd53:43:a58::2"),
			Services: netip.MustParsePrefix("fd53:43:a58:1::/112"), Pods: netip.MustParsePrefix("fd53:43:a58:2::/64"),
		},
	}, l)
	services := func(a addresses) fmt.Stringer { return a.Services }
	require.Equal(t, "10.88.64.0/18,fd53:43:a58:1::/112", l.families(l.Services, services))
	require.Equal(t, "10.88.64.0/18", layout{}.families(l.Services, services))
	require.True(t, l.Link.Contains(l.HostIP) && l.Link.Contains(l.NodeIP))
	require.True(t, l.Services.Contains(l.APIIP) && l.Services.Contains(l.DNSIP))
	for _, part := range []netip.Prefix{l.Link, l.Services, l.Pods} {
		require.Equal(t, part, part.Masked())
		require.True(t, l.Subnet.Contains(part.Addr()))
	}
	require.False(t, l.Services.Overlaps(l.Pods) || l.Link.Overlaps(l.Services) || l.Link.Overlaps(l.Pods))

	widest, err := newLayout("/n", "192.168.0.0/16")
	require.NoError(t, err)
	require.LessOrEqual(t, len(widest.Name), 15, "the name of an interface")
	require.LessOrEqual(t, len("/"+strings.Repeat("d", maxDir-1)+"/run/containerd.sock"), 107, "the path of a Unix socket")
}

func TestLayoutRefuses(t *testing.T) {
	for _, tc := range []struct{ dir, subnet, want string }{
		{"/n", "10.0.0.0/8", `subnet "10.0.0.0/8": must be a private IPv4 network with prefix length 16, such as 10.88.0.0/16`},
		{"/n", "10.88.1.0/16", `subnet "10.88.1.0/16": must be`},
		{"/n", "8.8.0.0/16", `subnet "8.8.0.0/16": must be`},
		{"/n", "fd00::/16", `subnet "fd00::/16": must be`},
		{"/n", "tea", `subnet "tea": must be`},
		{"/", "", `directory "/": must not be /, or contain spaces`},
		{"/var/my node", "", `directory "/var/my node": must not be /`},
		{"/" + strings.Repeat("d", maxDir), "", "the name must have at most 64 characters, not 65"},
	} {
		_, err := newLayout(tc.dir, tc.subnet)
		require.ErrorContains(t, err, tc.want)
	}
}

func TestOverlap(t *testing.T) {
	l, err := newLayout("/n", "10.88.0.0/16")
	require.NoError(t, err)
	const others = `default via 192.0.2.1 dev eth0
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
blackhole 10.244.17.0/24 proto bird
10.87.255.254 dev tun0 scope link
unreachable
`
	found := routes(others)
	require.Equal(t, []netip.Prefix{
		netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.244.17.0/24"), netip.MustParsePrefix("10.87.255.254/32"),
	}, found)
	require.NoError(t, l.overlap(found))
	for _, line := range []string{
		"10.88.0.0/16 dev cni0", "10.0.0.0/8 via 192.0.2.9 dev eth0", "10.88.3.4 dev tun0", "throw 10.88.128.0/24",
	} {
		require.ErrorContains(t, l.overlap(routes(others+line+"\n")), "choose another --subnet", line)
	}
}
