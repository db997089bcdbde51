package api

import (
	"fmt"
	"net/netip"
)

// ParseRanges parses ranges of addresses, each such as "10.244.0.0/16" or "fd00:10::/48".
// An IPv4-mapped IPv6 range becomes the IPv4 range.
func ParseRanges(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		r, err := netip.ParsePrefix(text)
		if err == nil && r.Addr().Is4In6() {
			if r.Bits() < 96 {
				err = fmt.Errorf("%d bits of IPv4-mapped address", r.Bits())
			} else {
				r = netip.PrefixFrom(r.Addr().Unmap(), r.Bits()-96)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%q: must be a range of IP addresses, such as 10.244.0.0/16 or fd00:10:244::/56", text)
		}
		if out = append(out, r.Masked()); r != r.Masked() {
			return nil, fmt.Errorf("%q: has bits set beyond the prefix length: must be %s", text, r.Masked())
		}
	}
	return out, nil
}
