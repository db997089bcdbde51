package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

func callerOf(namespace, account string) proxy.Caller {
	return proxy.Caller{ID: pki.SPIFFEID{TrustDomain: "example.com", Namespace: namespace, ServiceAccount: account}}
}

func TestParseAdmission(t *testing.T) {
	a, err := proxy.ParseAdmission(" sc-tls-8080 = shop/cart ,\n monitoring/*, */prober ;\tsc-any-5432=any;sc-tls-web=watch,shop/cart;sc-tls-1=*/*;sc-tls-2=watch;sc-tls-open= open \n")
	require.NoError(t, err)
	require.Equal(t, []string{"sc-any-5432", "sc-tls-1", "sc-tls-2", "sc-tls-8080", "sc-tls-web"}, a.Ports())
	require.Equal(t, proxy.NotListed, a.Guard("sc-tls-9090").Judge(callerOf("shop", "cart")), "a port that is not listed")
	require.Nil(t, a.Guard("sc-tls-open"))
	none := proxy.Caller{Without: proxy.NoCertificate}
	for _, c := range []struct {
		port   string
		caller proxy.Caller
		want   proxy.Reason
		watch  bool
	}{
		{"sc-tls-8080", callerOf("shop", "cart"), "", false},
		{"sc-tls-8080", callerOf("shop", "other"), proxy.NotListed, false},
		{"sc-tls-8080", callerOf("other", "cart"), proxy.NotListed, false},
		{"sc-tls-8080", callerOf("monitoring", "prometheus"), "", false},
		{"sc-tls-8080", callerOf("other", "prober"), "", false},
		{"sc-tls-8080", callerOf("prober", "other"), proxy.NotListed, false},
		{"sc-tls-8080", none, proxy.NoCertificate, false},
		{"sc-any-5432", callerOf("other", "other"), "", false},
		{"sc-any-5432", proxy.Caller{Without: proxy.Unencrypted}, proxy.Unencrypted, false},
		{"sc-tls-1", callerOf("other", "other"), "", false},
		{"sc-tls-1", proxy.Caller{Without: proxy.Unverified}, proxy.Unverified, false},
		{"sc-tls-web", callerOf("shop", "cart"), "", true},
		{"sc-tls-web", callerOf("shop", "other"), proxy.NotListed, true},
		{"sc-tls-2", callerOf("shop", "cart"), proxy.NotListed, true},
		{"sc-tls-2", none, proxy.NoCertificate, true},
	} {
		guard := a.Guard(c.port)
		assert.Equal(t, c.want, guard.Judge(c.caller), "%+v", c)
		assert.Equal(t, c.watch, guard.Watch, "%+v", c)
	}
	for _, none := range []string{"sc-tls-8080=", "sc-tls-8080= ;sc-any-5432=any"} {
		list, err := proxy.ParseAdmission(none)
		require.NoError(t, err)
		assert.Equal(t, proxy.NotListed, list.Guard("sc-tls-8080").Judge(callerOf("shop", "cart")), "nobody is admitted")
	}
	for _, empty := range []string{"", " \n\t"} {
		a, err = proxy.ParseAdmission(empty)
		require.NoError(t, err)
		require.Empty(t, a.Ports())
		require.Equal(t, proxy.NotListed, a.Guard("sc-tls-8080").Judge(callerOf("shop", "cart")), "somebody has removed the list")
	}
	a = proxy.AdmitNobody()
	require.Equal(t, proxy.NotListed, a.Guard("sc-tls-8080").Judge(callerOf("shop", "cart")))
	require.False(t, a.Guard("sc-tls-8080").Watch)
	require.Empty(t, a.Ports())
}

func TestAdmissionsThatAreNotValid(t *testing.T) {
	for text, want := range map[string]string{
		"sc-tls-8080":                                `"sc-tls-8080": has no =: must be NAME=ENTRY,ENTRY;NAME=ENTRY`,
		"sc-tls-8080=open,shop/cart":                 `"open": has no /`,
		"sc-tls-8080=open;sc-tls-8080=any":           "sc-tls-8080: must be in the list once",
		"sc-tls-8080=shop/cart,":                     `"": has no /`,
		"sc-tls-8080=shop/cart;":                     `"": has no =`,
		";":                                          `"": has no =`,
		"web=any":                                    `"web" is not the name of a port: must be sc-tls-PORT or sc-any-PORT`,
		"sc-tls-0=any":                               `"sc-tls-0" is not the name of a port`,
		"sc-tls-1=any;sc-tls-1=watch":                `sc-tls-1: must be in the list once`,
		"sc-tls-1=shop":                              `"shop": has no /`,
		"sc-tls-1=Any":                               `"Any": has no /`,
		"sc-tls-1=shop/":                             `"shop/": has no valid ServiceAccount`,
		"sc-tls-1=/cart":                             `"/cart": has no valid namespace`,
		"sc-tls-1=sho*/cart":                         `"sho*/cart": has no valid namespace`,
		"sc-tls-1=shop/ca*":                          `"shop/ca*": has no valid ServiceAccount`,
		"sc-tls-1=shop/cart/x":                       `"shop/cart/x": has no valid ServiceAccount`,
		"sc-tls-1=shop/ cart":                        `"shop/ cart": has no valid ServiceAccount`,
		"sc-tls-1=shop/a..b":                         `"shop/a..b": has no valid ServiceAccount`,
		"sc-tls-1=shop=cart":                         `"shop=cart": has no /`,
		"sc-tls-1=" + strings.Repeat("x", 5000):      `"` + strings.Repeat("x", 80) + `…": has no /`,
		strings.Repeat(" ", proxy.MaxAdmission+1):    "is larger than 64 KiB",
		"sc-tls-1=shop/cart\x00":                     `"shop/cart\x00": has no valid ServiceAccount`,
		"sc-tls-1=spiffe://example.com/ns/a/sa/b":    "has no valid namespace",
		"sc-tls-1=" + strings.Repeat("a", 64) + "/b": "has no valid namespace",
	} {
		a, err := proxy.ParseAdmission(text)
		require.ErrorContains(t, err, want)
		require.Nil(t, a)
		require.Less(t, len(err.Error()), 300)
	}
}

// A list of 64 KB has many entries. None of them costs anything when a client is judged.
func TestLargeAdmission(t *testing.T) {
	var b strings.Builder
	b.WriteString("sc-tls-8080=shop/cart")
	n := 0
	for ; b.Len() < proxy.MaxAdmission-10; n++ {
		fmt.Fprintf(&b, ",a/%d", n)
	}
	a, err := proxy.ParseAdmission(b.String())
	require.NoError(t, err)
	guard := a.Guard("sc-tls-8080")
	require.Empty(t, guard.Judge(callerOf("shop", "cart")))
	require.Empty(t, guard.Judge(callerOf("a", fmt.Sprint(n-1))))
	require.Equal(t, proxy.NotListed, guard.Judge(callerOf("a", fmt.Sprint(n))))
	require.Greater(t, n, 8000)
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = guard.Judge(callerOf("a", "1")) }))
}

// A list admits exactly those who are listed, however it is written.
func TestAdmissionAdmitsWhoIsListed(t *testing.T) {
	names := []string{"a", "b", "c-1"}
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	rapid.Check(t, func(t *rapid.T) {
		model := map[string][]string{}
		var parts []string
		for _, port := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"sc-tls-1", "sc-any-2", "sc-tls-web"}), 1, 3, rapid.ID).Draw(t, "ports") {
			entry := rapid.OneOf(
				rapid.SampledFrom([]string{"any", "watch", "*/*"}),
				rapid.Custom(func(t *rapid.T) string {
					part := rapid.SampledFrom(append([]string{"*"}, names...))
					return part.Draw(t, "namespace") + "/" + part.Draw(t, "account")
				}),
			)
			model[port] = rapid.SliceOfN(entry, 1, 5).Draw(t, "entries")
			var written []string
			for _, e := range model[port] {
				written = append(written, space.Draw(t, "")+e+space.Draw(t, ""))
			}
			parts = append(parts, space.Draw(t, "")+port+space.Draw(t, "")+"="+strings.Join(written, ","))
		}
		a, err := proxy.ParseAdmission(strings.Join(parts, ";"))
		require.NoError(t, err)
		for _, port := range []string{"sc-tls-1", "sc-any-2", "sc-tls-web", "sc-tls-9"} {
			entries, guard := model[port], a.Guard(port)
			require.NotNil(t, guard)
			require.Equal(t, slices.Contains(entries, "watch"), guard.Watch)
			for _, namespace := range names {
				for _, account := range names {
					listed := slices.ContainsFunc(entries, func(e string) bool {
						return slices.Contains([]string{"any", "*/*", namespace + "/*", "*/" + account, namespace + "/" + account}, e)
					})
					require.Equal(t, map[bool]proxy.Reason{true: "", false: proxy.NotListed}[listed], guard.Judge(callerOf(namespace, account)), "%s: %s/%s of %q", port, namespace, account, entries)
				}
			}
			require.Equal(t, proxy.Unverified, guard.Judge(proxy.Caller{Without: proxy.Unverified}))
		}
	})
}

// Namespaces and ServiceAccounts are those that the API server accepts.
func TestEntriesAreNamesOfTheAPIServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{1,8}`), rapid.StringMatching(`[a-z]{60,66}`), rapid.StringMatching(`([a-z]{30}\.){8}[a-z]{1,10}`), rapid.StringMatching(`.{0,3}`))
		namespace, account := part.Draw(t, "namespace"), part.Draw(t, "account")
		if strings.ContainsAny(namespace+account, ",;=/*") || strings.TrimSpace(namespace+"/"+account) != namespace+"/"+account {
			t.Skip("another entry")
		}
		want := len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(account)) == 0
		_, err := proxy.ParseAdmission("sc-tls-1=" + namespace + "/" + account)
		require.Equal(t, want, err == nil, "%q %q: %v", namespace, account, err)
	})
}

// Whatever the file contains, it is a list or an error, and a list admits nobody without an identity unless it watches.
func FuzzParseAdmission(f *testing.F) {
	for _, seed := range []string{"", "sc-tls-8080=shop/cart,monitoring/*;sc-any-5432=any", "sc-tls-8080=watch, */*", ";", "=", "sc-tls-1=,", "\x00", "sc-tls-1=a/b;sc-tls-1=a/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := proxy.ParseAdmission(text)
		if err != nil {
			require.Nil(t, a)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.Equal(t, strings.TrimSpace(text) == "", len(a.Ports()) == 0)
		for _, port := range a.Ports() {
			require.Equal(t, 1, strings.Count(";"+strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text), ";"+port+"="), "%q", text)
			require.Equal(t, proxy.NoCertificate, a.Guard(port).Judge(proxy.Caller{Without: proxy.NoCertificate}))
		}
	})
}
