package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestMountedReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := api.Mounted{}
		if leaves := rapid.MapOfN(rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?`), rapid.Custom(drawLeaf), 0, 4).Draw(t, "leaves"); len(leaves) > 0 {
			want.Leaves = leaves
		}
		if rapid.Bool().Draw(t, "bundle") {
			want.Bundle = drawLeaf(t)
		}
		got := api.ParseMounted(want.String())
		require.Equal(t, want, got)
		require.Equal(t, want.String(), got.String())
	})
}

func TestMounted(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	assert.Empty(t, api.Mounted{}.String())
	assert.Equal(t, "secret/api-tls="+b+",secret/web-tls="+a+",configmap/servingcert-ca.crt="+b,
		api.Mounted{Leaves: map[string]string{"web-tls": a, "api-tls": b}, Bundle: b}.String())
	for _, malformed := range []string{"", "x", ",", "secret/", "secret/x", "secret/=" + a, "secret/x=" + a[1:], "configmap/servingcert-ca.crt=", "configmap/other=" + a, a} {
		assert.Equal(t, api.Mounted{}, api.ParseMounted(malformed), "%q", malformed)
		got := api.ParseMounted(malformed + ",secret/web-tls=" + a)
		assert.Equal(t, map[string]string{"web-tls": a}, got.Leaves, "what can be read is: %q", malformed)
	}
}

func drawLeaf(t *rapid.T) string {
	return rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "leaf")
}
