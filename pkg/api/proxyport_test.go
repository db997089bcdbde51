package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseProxyPort(t *testing.T) {
	for name, want := range map[string]ProxyPort{
		"sc-tls-8080":     {Upstream: "8080"},
		"sc-any-8080":     {Plaintext: true, Upstream: "8080"},
		"sc-tls-1":        {Upstream: "1"},
		"sc-any-65535":    {Plaintext: true, Upstream: "65535"},
		"sc-tls-http":     {Upstream: "http"},
		"sc-any-http-web": {Plaintext: true, Upstream: "http-web"},
	} {
		got, ok := ParseProxyPort(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, got, name)
		assert.Equal(t, name, got.Name())
	}
	for _, name := range []string{
		"", "https", "sc-tls", "sc-tls-", "sc-any-", "sc-tls-0", "sc-tls-65536", "sc-tls-08080", "sc-tls-http-web1", // 16 characters
		"sc-tls--http", "sc-tls-HTTP", "sc-tls-http-", "sc-all-8080", "xsc-tls-8080",
	} {
		_, ok := ParseProxyPort(name)
		assert.False(t, ok, name)
	}
}
