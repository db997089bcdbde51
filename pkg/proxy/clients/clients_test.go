package clients

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

func TestParseWhatTheProxyWrites(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 24, hour, 0, 0, 0, time.UTC) }
	seen := proxy.NewClients(at(9), []proxy.Listen{{Name: "sc-any-8080", Plaintext: true}, {Name: "sc-tls-1"}, {Name: "sc-any-http", Plaintext: true}})
	seen.End(seen.Add(netip.MustParseAddr("::ffff:10.1.2.3"), "sc-any-8080", proxy.KindHTTP, at(10)), at(10))
	seen.End(seen.Add(netip.MustParseAddr("10.1.2.3"), "sc-any-8080", proxy.KindOther, at(10)), at(11))
	text, err := json.Marshal(seen.List(at(12)))
	require.NoError(t, err)
	got, err := Parse(text)
	require.NoError(t, err)
	assert.Equal(t, []PortClients{
		{Name: "sc-any-8080", Since: at(9), Peers: []Peer{{netip.MustParseAddr("10.1.2.3"), at(10), at(11), 2, "other"}}},
		{Name: "sc-any-http", Since: at(9), Peers: []Peer{}},
	}, got.Ports)
	assert.Empty(t, got.Guarded)

	list := seen.List(at(12))
	list.AddUnclear(netip.MustParseAddr("::ffff:10.1.2.9"), "sc-any-http", at(10), at(12))
	list.AddUnclear(netip.MustParseAddr("10.1.2.9"), "sc-any-http", at(11), at(12))
	for i := range 2 * proxy.MaxClients {
		list.AddUnclear(netip.AddrFrom4([4]byte{10, 3, byte(i >> 8), byte(i)}), "sc-any-8080", at(11), at(12))
	}
	text, err = json.Marshal(list)
	require.NoError(t, err)
	got, err = Parse(text)
	require.NoError(t, err)
	assert.Len(t, got.Ports[0].Peers, 1+proxy.MaxClients-1, "bounded")
	assert.Equal(t, []Peer{{netip.MustParseAddr("10.1.2.9"), at(10), at(12), 2, "unknown"}}, got.Ports[1].Peers)

	for i := range proxy.MaxClients {
		seen.Add(netip.AddrFrom4([4]byte{10, 2, 0, byte(i)}), "sc-any-http", proxy.KindHTTP, at(12))
	}
	text, err = json.Marshal(seen.List(at(13)))
	require.NoError(t, err)
	got, err = Parse(text)
	require.NoError(t, err)
	assert.Equal(t, PortClients{Name: "sc-any-8080", Since: at(9), Peers: []Peer{}, Evicted: proxy.Evicted{Clients: 1, Last: at(11)}}, got.Ports[0])
	assert.Len(t, got.Ports[1].Peers, proxy.MaxClients)
}

func TestParse(t *testing.T) {
	many, err := json.Marshal(proxy.ClientList{Clients: make([]proxy.Client, proxy.MaxClients+1)})
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":                  "must be a list of clients: EOF",
		"[]":                "must be a list of clients: ",
		"{} {}":             "must be one list",
		`{"ports":["web"]}`: `ports[0]: "web": must be sc-tls-PORT or sc-any-PORT`,
		`{"ports":["sc-any-1"],"clients":[{"port":"sc-any-1"}]}`:                       "clients[0].address: must be an IP address",
		`{"ports":["sc-any-1"],"clients":[{"port":"sc-any-2","address":"10.0.0.1"}]}`:  `clients[0].port: "sc-any-2": must be one of ports`,
		`{"ports":["sc-any-1"],"clients":[{"port":"sc-any-1","address":"localhost"}]}`: "must be a list of clients: ",
		`{"ports":["sc-any-1"],"unclear":[{"port":"sc-any-2","address":"10.0.0.1"}]}`:  `unclear[0].port: "sc-any-2": must be one of ports`,
		string(many):                   "more than 256 clients",
		strings.Repeat(" ", MaxSize+1): "larger than 1024 KiB",
	} {
		_, err := Parse([]byte(text))
		require.Error(t, err)
		assert.Contains(t, err.Error(), want)
	}
}
