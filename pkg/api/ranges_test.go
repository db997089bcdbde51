package api

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseRanges(t *testing.T) {
	got, err := ParseRanges([]string{"10.244.0.0/16", "fd00:10:244::/56", "::ffff:10.1.0.0/112"})
	require.NoError(t, err)
	assert.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56"), netip.MustParsePrefix("10.1.0.0/16")}, got)
	for text, want := range map[string]string{
		"":                 `"": must be a range of IP addresses, such as 10.244.0.0/16 or fd00:10:244::/56`,
		"10.244.0.0":       `"10.244.0.0": must be a range of IP addresses`,
		"10.244.0.0/33":    `"10.244.0.0/33": must be a range of IP addresses`,
		"::ffff:0.0.0.0/8": `"::ffff:0.0.0.0/8": must be a range of IP addresses`,
		"10.244.7.0/16":    `"10.244.7.0/16": has bits set beyond the prefix length: must be 10.244.0.0/16`,
	} {
		_, err := ParseRanges([]string{"10.0.0.0/8", text})
		assert.ErrorContains(t, err, want)
	}
}
