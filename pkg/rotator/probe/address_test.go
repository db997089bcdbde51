package probe

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestRefuse(t *testing.T) {
	const none, any4 = "", "0.0.0.0/0"
	tests := []struct {
		address, ranges string
		want            Cause
	}{
		{"10.244.3.7", none, ""},
		{"192.0.2.7", none, ""},
		{"fd00:10:244::7", none, ""},
		{"10.244.3.7", "10.244.0.0/16", ""},
		{"::ffff:10.244.3.7", "10.244.0.0/16", ""},
		{"10.245.3.7", "10.244.0.0/16", CauseOutside},
		{"fd00:10:244::7", "10.244.0.0/16", CauseOutside},
		{"fd00:10:244::7", "fd00:10:244::/56", ""},
		{"10.96.0.1", none, CauseAPIServer},
		{"10.96.0.1", any4, CauseAPIServer},
		{"::ffff:10.96.0.1", none, CauseAPIServer},
		{"64:ff9b::10.96.0.1", none, CauseAPIServer},
		{"2002:a60:1::", none, CauseAPIServer},
		{"2002:a60:2::", none, ""},
		{"fd00::1", none, CauseAPIServer},
		{"127.0.0.1", none, CauseLoopback},
		{"127.1.2.3", any4, CauseLoopback},
		{"127.1.2.3", "126.0.0.0/7", CauseLoopback},
		{"127.1.2.3", "127.0.0.0/8", ""},
		{"127.1.2.3", "127.2.0.0/16", CauseLoopback},
		{"::ffff:127.0.0.1", none, CauseLoopback},
		{"::127.0.0.1", none, CauseLoopback},
		{"64:ff9b::127.0.0.1", none, CauseLoopback},
		{"::1", none, CauseLoopback},
		{"::1", "::/0", CauseLoopback},
		{"::1", "::1/128", ""},
		{"169.254.169.254", none, CauseLinkLocal},
		{"169.254.169.254", any4, CauseLinkLocal},
		{"::ffff:169.254.169.254", none, CauseLinkLocal},
		{"64:ff9b::a9fe:a9fe", none, CauseLinkLocal},
		{"169.254.3.4", "169.254.3.0/24", ""},
		{"fe80::1", none, CauseLinkLocal},
		{"fe80::1%eth0", none, CauseLinkLocal},
		{"fe80::1", "::/0", CauseLinkLocal},
		{"168.63.129.16", none, CauseMetadata},
		{"168.63.129.16", any4, CauseMetadata},
		{"168.63.129.16", "168.63.129.0/24", CauseMetadata},
		{"168.63.129.16", "168.63.129.16/28", CauseMetadata},
		{"168.63.129.16", "168.63.129.16/32", ""},
		{"168.63.129.17", none, ""},
		{"64:ff9b::168.63.129.16", none, CauseMetadata},
		{"::ffff:100.100.100.200", none, CauseMetadata},
		{"100.100.100.200", "100.64.0.0/10", CauseMetadata},
		{"192.0.0.192", none, CauseMetadata},
		{"fd00:ec2::254", none, CauseMetadata},
		{"fd00:ec2::23", none, CauseMetadata},
		{"fd00:ec2::254", "fd00::/8", CauseMetadata},
		{"fd00:ec2::254", "fd00:ec2::254/128", ""},
		{"fd00:ec2::254", "fd00:ec2::/32", ""},
		{"fd00:ec3::254", none, ""},
		{"fd20:ce::254", none, CauseMetadata},
		{"fd00:42::42", none, CauseMetadata},
		{"fd00:c1::a9fe:a9fe", none, CauseMetadata},
		{"fd00:a9fe:a9fe::1", none, CauseMetadata},
		{"fd00:100::100:200", none, CauseMetadata},
		{"::ffff:0:169.254.169.254", none, CauseLinkLocal},
		{"2002:a9fe:a9fe::1", none, CauseLinkLocal},
		{"2002:a83f:8110::", any4, CauseMetadata},
		{"2002:0a00:0001::1", none, ""},
		{"64:ff9b:1::a9fe:a9fe", none, CauseTranslated},
		{"64:ff9b:1:a9fe:a9:fe00::", none, CauseTranslated},
		{"64:ff9b:1::a60:1", "64:ff9b::/32", CauseTranslated},
		{"64:ff9b:1::a60:2", "64:ff9b:1::/48", ""},
		{"64:ff9b:2::1", none, ""},
		{"224.0.0.1", none, CauseMulticast},
		{"224.0.0.1", "224.0.0.0/4", CauseMulticast},
		{"ff02::1", none, CauseMulticast},
		{"255.255.255.255", none, CauseMulticast},
		{"0.0.0.0", none, CauseUnspecified},
		{"0.0.0.0", any4, CauseUnspecified},
		{"0.1.2.3", any4, CauseUnspecified},
		{"::", none, CauseUnspecified},
		{"::ffff:0.0.0.0", none, CauseUnspecified},
	}
	for _, tt := range tests {
		t.Run(tt.address+" "+tt.ranges, func(t *testing.T) {
			a := Addresses{APIServer: []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")}}
			if tt.ranges != none {
				var err error
				a.Ranges, err = api.ParseRanges([]string{"198.51.100.0/24", tt.ranges})
				require.NoError(t, err)
			}
			assert.Equal(t, tt.want, a.Refuse(Target{Address: netip.MustParseAddr(tt.address)}))
			if tt.want != "" {
				assert.NotEmpty(t, tt.want.Why(""))
			}
		})
	}
	assert.Equal(t, CauseUnspecified, Addresses{}.Refuse(Target{}), "no address")
}

func TestRefuseOnTheHostNetwork(t *testing.T) {
	a := Addresses{Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, APIServer: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	v := Target{Address: netip.MustParseAddr("192.0.2.7"), HostNetwork: true, OnNode: true}
	assert.Empty(t, a.Refuse(v), "its node's address is in no range of pods")
	v.OnNode = false
	assert.Equal(t, CauseNotNode, a.Refuse(v))
	v.Address = netip.MustParseAddr("10.244.0.7")
	assert.Equal(t, CauseNotNode, a.Refuse(v))
	v.OnNode = true
	for address, want := range map[string]Cause{"127.0.0.1": CauseLoopback, "169.254.169.254": CauseLinkLocal, "192.0.2.1": CauseAPIServer} {
		v.Address = netip.MustParseAddr(address)
		assert.Equal(t, want, a.Refuse(v), "whatever the status names as the node's address")
	}
}

// An IPv4 address is evaluated in the same way in every IPv6 form.
func TestPropertyOfEmbeddedAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		four := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		four[0] = rapid.SampledFrom([]byte{0, 10, 127, 169, 192, 224, 255, four[0]}).Draw(t, "first byte")
		want := Addresses{}.Refuse(Target{Address: netip.AddrFrom4(four)})
		for _, prefix := range []string{"::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"} {
			six := netip.MustParseAddr(prefix).As16()
			copy(six[12:], four[:])
			require.Equal(t, want, Addresses{}.Refuse(Target{Address: netip.AddrFrom16(six)}), prefix)
		}
	})
}
