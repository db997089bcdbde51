package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func TestIsSubdomain(t *testing.T) {
	for name, want := range map[string]bool{
		"web-tls": true, "a": true, "0": true, "a.b": true, "a--b": true, strings.Repeat("a", 63): true, strings.Repeat("a", 253): true,
		"": false, "-": false, "-a": false, "a-": false, "A": false, "a_b": false, "a/b": false, "a`b": false, "a{b": false, "a:b": false, ".a": false, "a.": false, "é": false, strings.Repeat("a", 254): false,
	} {
		assert.Equal(t, want, IsSubdomain(name), "%q", name)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-cz09A.`+"`{/:"+`-]{0,5}|[a-z]{60,66}`).Draw(t, "name")
		if got, want := IsSubdomain(name), len(validation.IsDNS1123Subdomain(name)) == 0; got != want {
			t.Fatalf("IsSubdomain(%q): %v, want %v", name, got, want)
		}
	})
}
