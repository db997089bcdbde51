package proxy_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/proxy"
)

func TestParseConnect(t *testing.T) {
	local := netip.MustParseAddrPort
	for s, want := range map[string]proxy.Connect{
		"127.1.0.1:80=api.shop.svc:443,http":                        {Name: "api.shop.svc:80", Local: local("127.1.0.1:80"), Host: "api.shop.svc", Port: 443, Mode: proxy.ModeHTTP},
		"127.1.0.2:5432=db.shop.svc:5432":                           {Name: "db.shop.svc:5432", Local: local("127.1.0.2:5432"), Host: "db.shop.svc", Port: 5432},
		"127.255.255.255:1=a.b.svc:65535,either":                    {Name: "a.b.svc:1", Local: local("127.255.255.255:1"), Host: "a.b.svc", Port: 65535, Mode: proxy.ModeEither},
		"127.0.0.2:80=1.2.svc:443":                                  {Name: "1.2.svc:80", Local: local("127.0.0.2:80"), Host: "1.2.svc", Port: 443},
		"127.0.0.1:80=api.shop.svc:443":                             {},
		"127.1.0.01:80=api.shop.svc:443":                            {},
		"127.1:80=api.shop.svc:443":                                 {},
		"10.0.0.1:80=api.shop.svc:443":                              {},
		"128.0.0.1:80=api.shop.svc:443":                             {},
		"localhost:80=api.shop.svc:443":                             {},
		":80=api.shop.svc:443":                                      {},
		"[::1]:80=api.shop.svc:443":                                 {Name: "api.shop.svc:80", Local: local("[::1]:80"), Host: "api.shop.svc", Port: 443},
		"::1:80=api.shop.svc:443":                                   {},
		"[::2]:80=api.shop.svc:443":                                 {},
		"[::1%lo]:80=api.shop.svc:443":                              {},
		"[0::1]:80=api.shop.svc:443":                                {},
		"[::ffff:127.1.0.1]:80=api.shop.svc:443":                    {},
		"::ffff:127.1.0.1:80=api.shop.svc:443":                      {},
		"127.1.0.1=api.shop.svc:443":                                {},
		"127.1.0.1:0=api.shop.svc:443":                              {},
		"127.1.0.1:http=api.shop.svc:443":                           {},
		"127.1.0.1:80":                                              {},
		"":                                                          {},
		"127.1.0.1:80=api.shop.svc":                                 {},
		"127.1.0.1:80=api.shop.svc:":                                {},
		"127.1.0.1:80=api.shop.svc:0443":                            {},
		"127.1.0.1:80=api.shop.svc:443:1":                           {},
		"127.1.0.1:80=api.shop:443":                                 {},
		"127.1.0.1:80=api.shop.svc.:443":                            {},
		"127.1.0.1:80=a.api.shop.svc:443":                           {},
		"127.1.0.1:80=api.shop.svc.cluster.local:443":               {},
		"127.1.0.1:80=api.shop.pod:443":                             {},
		"127.1.0.1:80=.shop.svc:443":                                {},
		"127.1.0.1:80=Api.shop.svc:443":                             {},
		"127.1.0.1:80=-a.shop.svc:443":                              {},
		"127.1.0.1:80=a-.shop.svc:443":                              {},
		"127.1.0.1:80=a_b.shop.svc:443":                             {},
		"127.1.0.1:80=api.shop.svc:443,":                            {},
		"127.1.0.1:80=api.shop.svc:443,HTTP":                        {},
		"127.1.0.1:80=api.shop.svc:443,http,either":                 {},
		"127.1.0.1:80=" + strings.Repeat("a", 64) + ".shop.svc:443": {},
	} {
		got, err := proxy.ParseConnect(s)
		assert.Equal(t, want, got, s)
		if want.Name == "" {
			require.ErrorContains(t, err, `"`+s+`": `)
			require.ErrorContains(t, err, "must be ADDRESS:PORT=SERVICE.NAMESPACE.svc:PORT[,http|,either]")
		} else {
			require.NoError(t, err, s)
		}
	}
}

// A host is accepted if and only if Kubernetes accepts the names.
func TestHostsAreThoseOfKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.OneOf(rapid.StringMatching(`[a-z0-9-]{0,5}`), rapid.StringMatching(`[a-zA-Z0-9_. -]{0,3}`), rapid.StringMatching(`[a-z]{62,64}`))
		service, namespace := label.Draw(t, "service"), label.Draw(t, "namespace")
		want := len(validation.IsDNS1123Label(service)) == 0 && len(validation.IsDNS1123Label(namespace)) == 0
		_, err := proxy.ParseConnect("127.1.0.1:80=" + service + "." + namespace + ".svc:443")
		require.Equal(t, want, err == nil, "%q, %q: %v", service, namespace, err)
	})
}

// Whatever is parsed is listened on at a loopback address that is not the programs', and can be written back.
func FuzzParseConnect(f *testing.F) {
	f.Add("127.1.0.1:80=api.shop.svc:443,http")
	f.Add("127.0.0.1:80=api.shop.svc:443,either")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := proxy.ParseConnect(s)
		if err != nil {
			return
		}
		option := ""
		if c.Mode != proxy.ModeAtOnce {
			option = "," + string(c.Mode)
		}
		require.Equal(t, s, fmt.Sprintf("%s=%s:%d%s", c.Local, c.Host, c.Port, option))
		require.True(t, c.Local.Addr().IsLoopback() && !c.Local.Addr().Is4In6() && c.Local.Addr().String() != "127.0.0.1")
		require.True(t, strings.HasPrefix(c.Name, c.Host+":"))
	})
}

func TestCheckConnects(t *testing.T) {
	admin := netip.MustParseAddrPort("127.0.0.1:15443")
	parse := func(list ...string) (out []proxy.Connect) {
		for _, s := range list {
			c, err := proxy.ParseConnect(s)
			require.NoError(t, err)
			out = append(out, c)
		}
		return out
	}
	web := []proxy.Listen{{Name: "sc-tls-8080", Port: 9443, Upstream: 8080}}
	require.NoError(t, proxy.Check(nil, parse("127.1.0.1:80=a.b.svc:443", "127.1.0.1:81=a.b.svc:443", "127.1.0.2:80=c.b.svc:443"), admin))
	require.NoError(t, proxy.Check(web, parse("127.1.0.1:15443=a.b.svc:443", "127.1.0.1:8080=a.b.svc:8080"), admin), "at other addresses")
	var many []string
	for i := range proxy.MaxConnects {
		many = append(many, fmt.Sprintf("127.1.1.%d:80=s%d.b.svc:443", i, i))
	}
	require.NoError(t, proxy.Check(nil, parse(many...), admin))
	for want, connects := range map[string][]string{
		"--connect c.b.svc:80: 127.1.0.1:80 is also used by --connect a.b.svc:80":       {"127.1.0.1:80=a.b.svc:443", "127.1.0.1:80=c.b.svc:443"},
		"--connect a.b.svc:80: must be set once for each Service and port to listen on": {"127.1.0.1:80=a.b.svc:443", "127.1.0.2:80=a.b.svc:444"},
		"--connect a.b.svc:9443: port 9443 is also used by --listen sc-tls-8080":        {"127.1.0.1:9443=a.b.svc:443"},
		"--connect: is set 257 times: must be at most 256":                              append(many, "127.1.0.1:80=a.b.svc:443"),
	} {
		require.EqualError(t, proxy.Check(web, parse(connects...), admin), want)
	}
	require.EqualError(t, proxy.Check(nil, parse("127.1.0.1:80=a.b.svc:443"), netip.MustParseAddrPort("127.1.0.1:80")), "--connect a.b.svc:80: 127.1.0.1:80 is also used by --admin-address")
}

func TestCheckClusterDomain(t *testing.T) {
	for s, ok := range map[string]bool{
		"cluster.local": true, "c": true, "a-b.example.com": true, "": false, "cluster.local.": false, ".local": false, "a..b": false, "Cluster.local": false,
		strings.Repeat("a.", 60) + "aa": false, strings.Repeat("a.", 60) + "a": true,
	} {
		if err := proxy.CheckClusterDomain(s); ok {
			assert.NoError(t, err, s)
		} else {
			assert.EqualError(t, err, fmt.Sprintf("--cluster-domain: %q: must be a domain such as cluster.local, without a dot at the end", s))
		}
	}
	longest := strings.Repeat("s", 63) + "." + strings.Repeat("n", 63) + ".svc." + strings.Repeat("a.", 60) + "a"
	require.Len(t, longest, 253, "the maximum of DNS")
}
