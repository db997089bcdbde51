package proxy_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/proxy"
)

func TestParseListen(t *testing.T) {
	for s, want := range map[string]proxy.Listen{
		"sc-tls-8080=9443:8080":             {Name: "sc-tls-8080", Port: 9443, Upstream: 8080},
		"sc-any-web=9443:80":                {Name: "sc-any-web", Port: 9443, Upstream: 80, Plaintext: true},
		"sc-any-8080=65535:1,h2":            {Name: "sc-any-8080", Port: 65535, Upstream: 1, Plaintext: true, H2: true},
		"sc-tls-8080=9443:8080,proxy-v2,h2": {Name: "sc-tls-8080", Port: 9443, Upstream: 8080, H2: true, ProxyV2: true},
		"sc-tls-tls=9443:8080":              {Name: "sc-tls-tls", Port: 9443, Upstream: 8080},
		"sc-any-abcdefgh=9443:8080":         {Name: "sc-any-abcdefgh", Port: 9443, Upstream: 8080, Plaintext: true},
		"sc-tls-a_b=9443:8080":              {},
		"sc-any-abcdefghi=9443:8080":        {},
		"sc-tls-12345678=9443:8080":         {},
		"sc-tls-0=9443:8080":                {},
		"sc-tls-=9443:8080":                 {},
		"web=9443:8080":                     {},
		"sc-tls-8080":                       {},
		"sc-tls-8080=9443":                  {},
		"sc-tls-8080=0:8080":                {},
		"sc-tls-8080=9443:65536":            {},
		"sc-tls-8080=+9443:8080":            {},
		"sc-tls-8080=9443:8080,":            {},
		"sc-tls-8080=9443:8080,H2":          {},
		"sc-tls-8080=9443:127.0.0.1:8080":   {},
		"sc-tls-a--b=9443:8080":             {},
		"sc-tls--a=9443:8080":               {},
		"sc-tls-a-=9443:8080":               {},
		"sc-tls-a-b=9443:8080":              {Name: "sc-tls-a-b", Port: 9443, Upstream: 8080},
		"sc-tls-12-34=9443:8080":            {},
	} {
		got, err := proxy.ParseListen(s)
		assert.Equal(t, want, got, s)
		if want.Name == "" {
			require.ErrorContains(t, err, `"`+s+`": `)
			require.ErrorContains(t, err, "must be NAME=PORT:UPSTREAM[,h2][,proxy-v2]")
		} else {
			require.NoError(t, err, s)
		}
	}
}

// The proxy accepts the same names as the webhook.
func TestNamesAreThoseOfTheContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.StringMatching(`sc-(tls|any)-[a-z0-9-]{0,9}`), rapid.StringMatching(`sc-(tls|any)-[0-9]{1,6}`), rapid.StringMatching(`[a-z0-9-]{1,16}`),
			rapid.StringMatching(`sc-tls-[A-Z_+. ]{1,3}`),
		).Draw(t, "name")
		want, ok := api.ParseProxyPort(name)
		got, err := proxy.ParseListen(name + "=1:2")
		require.Equal(t, ok, err == nil, "%q: %v", name, err)
		require.Equal(t, want.Plaintext, got.Plaintext)
	})
}

// The proxy reads the arguments as the webhook writes them.
func TestListenersOfTheWebhook(t *testing.T) {
	port := rapid.Int32Range(1, 65535)
	rapid.Check(t, func(t *rapid.T) {
		l := api.ProxyListener{
			Name: rapid.SampledFrom([]string{"sc-tls-8080", "sc-any-http"}).Draw(t, "name"),
			Port: port.Draw(t, "port"), Upstream: port.Draw(t, "upstream"), H2: rapid.Bool().Draw(t, "h2"), V2: rapid.Bool().Draw(t, "v2"),
		}
		got, err := proxy.ParseListen(l.String())
		require.NoError(t, err)
		require.Equal(t, proxy.Listen{
			Name: l.Name, Port: uint16(l.Port), Upstream: uint16(l.Upstream), Plaintext: l.Name == "sc-any-http", H2: l.H2, ProxyV2: l.V2,
		}, got)
	})
}

func TestCheck(t *testing.T) {
	web := proxy.Listen{Name: "sc-tls-8080", Port: 9443, Upstream: 8080}
	anyPort := proxy.Listen{Name: "sc-any-8080", Port: 9444, Upstream: 8080}
	admin := netip.MustParseAddrPort("127.0.0.1:15443")
	require.NoError(t, proxy.Check([]proxy.Listen{web, anyPort}, nil, admin))
	for want, ports := range map[string][]proxy.Listen{
		"--listen: must be set at least once, or --connect":                                                                    nil,
		"--listen sc-tls-8080: port 9443 is also used by --listen sc-tls-8080":                                                 {web, web},
		"--listen sc-tls-8080: port 15443 is also used by --admin-address":                                                     {{Name: "sc-tls-8080", Port: 15443, Upstream: 8080}},
		"--listen sc-tls-9444: the program's port 9444 is the port of --listen sc-any-8080: the proxy would connect to itself": {{Name: "sc-tls-9444", Port: 9443, Upstream: 9444}, anyPort},
		"--listen sc-tls-9443: the program's port 9443 is the port of --listen sc-tls-9443: the proxy would connect to itself": {{Name: "sc-tls-9443", Port: 9443, Upstream: 9443}},
		"--listen sc-tls-15443: the program's port 15443 is the port of --admin-address: the proxy would connect to itself":    {{Name: "sc-tls-15443", Port: 9443, Upstream: 15443}},
	} {
		require.EqualError(t, proxy.Check(ports, nil, admin), want)
	}
}
