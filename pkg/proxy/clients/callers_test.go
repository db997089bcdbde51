package clients

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

func TestParseCallers(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 24, hour, 0, 0, 0, time.UTC) }
	ports := []proxy.Listen{{Name: "sc-tls-8080"}, {Name: "sc-tls-1"}}
	seen := proxy.NewClients(at(9), ports)
	admission, err := proxy.ParseAdmission("sc-tls-8080=watch,shop/cart;sc-tls-1=any")
	require.NoError(t, err)
	seen.Guard(at(9), ports, admission)
	cart, address := proxy.Caller{ID: pki.SPIFFEID{TrustDomain: "example.com", Namespace: "shop", ServiceAccount: "cart"}}, netip.MustParseAddr("10.1.2.3")
	seen.End(seen.Call(cart, address, "sc-tls-8080", "", at(10)), at(10))
	seen.Refuse(proxy.Caller{Without: proxy.NoCertificate}, netip.MustParseAddr("::ffff:10.1.2.4"), "sc-tls-8080", proxy.NoCertificate, at(11))
	seen.Refuse(cart, address, "sc-tls-1", proxy.NotListed, at(10))
	parsed := func() []PortCallers {
		text, err := json.Marshal(seen.List(at(12)))
		require.NoError(t, err)
		got, err := Parse(text)
		require.NoError(t, err)
		return got.Guarded
	}
	want := PortCallers{Name: "sc-tls-8080", Since: at(9), Callers: []Caller{
		{Caller: proxy.Caller{Without: proxy.NoCertificate}, Address: netip.MustParseAddr("10.1.2.4"), First: at(11), Last: at(11), Refused: 1},
		{Caller: cart, First: at(10), Last: at(10), Connections: 1},
	}}
	assert.Equal(t, []PortCallers{want, {Name: "sc-tls-1", Since: at(9), Callers: []Caller{{Caller: cart, First: at(10), Last: at(10), Refused: 1}}}}, parsed())

	admission, err = proxy.ParseAdmission("sc-tls-8080=shop/cart;sc-tls-1=open")
	require.NoError(t, err)
	seen.Guard(at(11), ports, admission)
	assert.Equal(t, []PortCallers{want}, parsed(), "without those of a port that is open now")

	for i := range proxy.MaxClients + 1 {
		seen.Refuse(proxy.Caller{Without: proxy.NoCertificate}, netip.AddrFrom4([4]byte{10, 3, byte(i >> 8), byte(i)}), "sc-tls-8080", proxy.NoCertificate, at(12))
		seen.Refuse(proxy.Caller{ID: pki.SPIFFEID{TrustDomain: "example.com", Namespace: "shop", ServiceAccount: "a" + string(rune('a'+i%26)) + string(rune('a'+i/26))}}, address, "sc-tls-8080", proxy.NotListed, at(12))
	}
	full := parsed()[0]
	assert.Len(t, full.Callers, 2*proxy.MaxClients, "what a proxy writes is never too much")
	assert.Equal(t, proxy.Evicted{Clients: 2, Last: at(12)}, full.Evicted)
	assert.Equal(t, proxy.Evicted{Clients: 2, Last: at(12)}, full.EvictedStrangers)
}

func TestParseInvalidCallers(t *testing.T) {
	many, err := json.Marshal(proxy.ClientList{Callers: make([]proxy.GuardedClient, 2*proxy.MaxClients+2)})
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{"guarded":[{"port":"web"}]}`:                                         `guarded[0].port: "web": must be sc-tls-PORT or sc-any-PORT`,
		`{"callers":[{"reason":"no_certificate"}]}`:                            "callers[0].address: must be an IP address",
		`{"callers":[{"address":"10.0.0.1"}]}`:                                 `callers[0].reason: "": must be why it has no identity`,
		`{"callers":[{"address":"10.0.0.1","reason":"not_listed"}]}`:           `callers[0].reason: "not_listed"`,
		`{"callers":[{"identity":"spiffe://example.com/ns/shop/sa/../cart"}]}`: "callers[0].identity: \"spiffe://example.com/ns/shop/sa/../cart\": must be the SPIFFE ID",
		`{"callers":[{"identity":"%"}]}`:                                       "must be a URI",
		string(many):                                                           "more than 256 clients",
	} {
		_, err := Parse([]byte(text))
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), want)
	}
}
