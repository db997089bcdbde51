package proxy_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

func TestChooseProtocol(t *testing.T) {
	for _, c := range []struct {
		name            string
		offered         []string
		plain, declared string
	}{
		{"psql, redis-cli, openssl", nil, "", ""},
		{"gRPC", []string{"h2"}, "h2", "h2"},
		{"an older gRPC", []string{"grpc-exp", "h2"}, "", "h2"},
		{"kubelet's probe, a browser, Go", []string{"h2", "http/1.1"}, "http/1.1", "h2"},
		{"the other way round", []string{"http/1.1", "h2"}, "http/1.1", "h2"},
		{"curl --http1.1", []string{"http/1.1"}, "http/1.1", "http/1.1"},
		{"old curl", []string{"http/1.1", "http/1.0"}, "http/1.1", "http/1.1"},
		{"psql 17, sslnegotiation=direct", []string{"postgresql"}, "postgresql", "postgresql"},
		{"MQTT", []string{"mqtt"}, "mqtt", "mqtt"},
		{"ACME", []string{"acme-tls/1"}, "", ""},
		{"two unknown protocols", []string{"a", "b"}, "", ""},
	} {
		assert.Equal(t, c.plain, proxy.ChooseProtocol(c.offered, false), c.name)
		assert.Equal(t, c.declared, proxy.ChooseProtocol(c.offered, true), c.name)
	}
}

func TestChooseProtocolChoosesWhatWasOffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offered := rapid.SliceOf(rapid.SampledFrom([]string{"h2", "http/1.1", "acme-tls/1", "x"})).Draw(t, "offered")
		h2 := rapid.Bool().Draw(t, "h2")
		chosen := proxy.ChooseProtocol(offered, h2)
		require.True(t, chosen == "" || slices.Contains(offered, chosen))
		require.NotEqual(t, "acme-tls/1", chosen)
		if chosen == "h2" {
			require.True(t, h2 || len(offered) == 1)
		}
	})
}

// Clients is compared with a model that records all connections.
func TestClients(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		clients, now := proxy.NewClients(start, nil), start
		type key struct {
			address netip.Addr
			port    string
		}
		type connection struct {
			key
			record *proxy.Record
		}
		last, count, open := map[key]time.Time{}, map[key]uint64{}, []connection(nil)
		for range rapid.IntRange(0, 700).Draw(t, "connections") {
			now = now.Add(time.Second)
			if len(open) > 0 && rapid.Bool().Draw(t, "end one") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				clients.End(open[i].record, now)
				last[open[i].key] = now
				open = slices.Delete(open, i, i+1)
				now = now.Add(time.Second)
			}
			k := key{netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 1).Draw(t, "c")), byte(rapid.IntRange(0, 255).Draw(t, "d"))}), rapid.SampledFrom([]string{"sc-any-1", "sc-any-2"}).Draw(t, "port")}
			open = append(open, connection{k, clients.Add(k.address, k.port, proxy.KindHTTP, now)})
			last[k] = now
			count[k]++
		}
		now = now.Add(time.Hour)
		for _, c := range open {
			last[c.key] = now
		}
		list := clients.List(now)
		require.Equal(t, start, list.Since)
		require.Len(t, list.Clients, min(len(last), proxy.MaxClients))
		require.Equal(t, len(last) > proxy.MaxClients, len(list.Evicted) > 0)
		newest := map[string]time.Time{} // by port, of what the list says
		for port, f := range list.Evicted {
			require.LessOrEqual(t, f.Clients, uint64(700))
			newest[port] = f.Last
		}
		for i, c := range list.Clients {
			k := key{c.Address, c.Port}
			if len(list.Evicted) == 0 {
				require.Equal(t, count[k], c.Connections)
				require.Equal(t, last[k], c.Last)
			}
			require.False(t, c.Last.After(last[k]))
			require.LessOrEqual(t, c.Connections, count[k])
			require.False(t, c.First.After(c.Last))
			require.True(t, i == 0 || !c.Last.After(list.Clients[i-1].Last))
			if c.Last.After(newest[c.Port]) {
				newest[c.Port] = c.Last
			}
		}
		want := map[string]time.Time{}
		for k, at := range last {
			if at.After(want[k.port]) {
				want[k.port] = at
			}
		}
		require.Equal(t, want, newest, "when plaintext was last used with each port, whichever clients are removed")
	})
}

// A connection counts as long as it lasts, also if 256 clients of another port come after it.
func TestAnOpenConnectionIsSeenNow(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clients := proxy.NewClients(start, nil)
	once, pool := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")
	clients.End(clients.Add(once, "sc-any-5432", proxy.KindOther, start), start.Add(time.Minute))
	clients.Add(pool, "sc-any-5432", proxy.KindOther, start)
	week := start.Add(7 * 24 * time.Hour)
	for i := range proxy.MaxClients - 1 {
		clients.End(clients.Add(netip.AddrFrom4([4]byte{10, 2, 0, byte(i)}), "sc-any-80", proxy.KindHTTP, week), week)
	}
	list := clients.List(week.Add(time.Hour))
	require.Equal(t, proxy.Client{Address: pool, Port: "sc-any-5432", First: start, Last: week.Add(time.Hour), Connections: 1, Kind: proxy.KindOther}, list.Clients[0])
	require.Equal(t, map[string]proxy.Evicted{"sc-any-5432": {Clients: 1, Last: start.Add(time.Minute)}}, list.Evicted)
}

func TestClientsKnowAnAddressInBothForms(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clients := proxy.NewClients(now, []proxy.Listen{{Name: "sc-any-80", Plaintext: true}, {Name: "sc-tls-81"}})
	for _, address := range []string{"10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "fe80::1"} {
		clients.Add(netip.MustParseAddr(address), "sc-any-80", proxy.KindHTTP, now)
	}
	require.Len(t, clients.List(now).Clients, 2)
	require.Equal(t, []string{"sc-any-80"}, clients.List(now).Ports)
}

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		client, port string
		family       byte
		addresses    string
	}{
		{"10.1.2.3:4660", "10.4.5.6:22136", 0x11, "\x0a\x01\x02\x03\x0a\x04\x05\x06"},
		{"[::ffff:10.1.2.3]:4660", "[::ffff:10.4.5.6]:22136", 0x11, "\x0a\x01\x02\x03\x0a\x04\x05\x06"},
		{"10.1.2.3:4660", "[fd00::2]:22136", 0x21, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x01\x02\x03\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02"},
		{"[fd00::1]:4660", "10.4.5.6:22136", 0x21, "\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x04\x05\x06"},
		{"[fd00::1]:4660", "[fd00::2]:22136", 0x21, "\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02"},
	} {
		header := proxy.Header(netip.MustParseAddrPort(c.client), netip.MustParseAddrPort(c.port))
		require.True(t, bytes.HasPrefix(header, []byte("\r\n\r\n\x00\r\nQUIT\n\x21")), c.client)
		assert.Equal(t, c.family, header[13])
		assert.Equal(t, len(header)-16, int(binary.BigEndian.Uint16(header[14:])))
		assert.Equal(t, c.addresses+"\x12\x34\x56\x78", string(header[16:]))
	}
}

// The fields of proxy-protocol.txt, 2.2: a type, a length of two bytes, and a value.
func TestHeaderOfAnIdentity(t *testing.T) {
	id := pki.SPIFFEID{TrustDomain: "example.com", Namespace: "shop", ServiceAccount: "cart"}
	const uri = "\xe0\x00\x24spiffe://example.com/ns/shop/sa/cart"
	for _, c := range []struct {
		version uint16
		resumed bool
		want    string
	}{
		{tls.VersionTLS13, false, "\x20\x00\x0f\x07\x00\x00\x00\x00\x21\x00\x07TLSv1.3" + uri},
		{tls.VersionTLS12, true, "\x20\x00\x0f\x05\x00\x00\x00\x00\x21\x00\x07TLSv1.2" + uri},
	} {
		fields := proxy.HeaderIdentity(id, c.version, c.resumed)
		require.Equal(t, c.want, string(fields))
		for client, port := range map[string]string{"10.1.2.3:4660": "10.4.5.6:22136", "[fd00::1]:4660": "[fd00::2]:22136"} {
			client, port := netip.MustParseAddrPort(client), netip.MustParseAddrPort(port)
			plain, header := proxy.Header(client, port), proxy.Header(client, port, fields...)
			require.Equal(t, string(plain[:14]), string(header[:14]))
			require.Equal(t, len(header)-16, int(binary.BigEndian.Uint16(header[14:])))
			require.Equal(t, string(plain[16:])+c.want, string(header[16:]))
		}
	}
}

// Clients of guarded ports are known by their identities, and those without one by their addresses, which cannot
// displace them.
func TestCallers(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	one, two := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("::ffff:10.1.0.2")
	cart, stranger := callerOf("shop", "cart"), proxy.Caller{Without: proxy.NoCertificate}
	ports := []proxy.Listen{{Name: "sc-tls-1"}, {Name: "sc-any-2", Plaintext: true}, {Name: "sc-tls-3"}}
	clients := proxy.NewClients(start, ports)
	require.Equal(t, proxy.ClientList{Since: start, Ports: []string{"sc-any-2"}, Clients: []proxy.Client{}}, clients.List(start))
	text, err := json.Marshal(clients.List(start))
	require.NoError(t, err)
	require.JSONEq(t, `{"since":"2026-05-01T12:00:00Z","ports":["sc-any-2"],"clients":[]}`, string(text), "as without guarded ports")

	guard := func(minutes int, list string) {
		a, err := proxy.ParseAdmission(list)
		require.NoError(t, err)
		clients.Guard(at(minutes), ports, a)
	}
	clients.Guard(start, ports, proxy.AdmitNobody())
	require.Len(t, clients.List(start).Guarded, 3)
	guard(1, "sc-tls-1=watch;sc-any-2=open;sc-tls-3=open;sc-tls-9=any")
	guard(2, "sc-tls-1=shop/cart;sc-any-2=watch;sc-tls-3=open")
	require.Equal(t, []proxy.GuardedPort{{"sc-tls-1", false, start}, {"sc-any-2", true, at(2)}}, clients.List(start).Guarded)

	first := clients.Call(cart, one, "sc-tls-1", "", at(3))
	clients.End(clients.Call(cart, two, "sc-tls-1", "", at(4)), at(5))
	clients.Refuse(callerOf("shop", "other"), two, "sc-tls-1", proxy.NotListed, at(6))
	clients.End(clients.Call(stranger, two, "sc-any-2", proxy.NoCertificate, at(7)), at(8))
	clients.Refuse(proxy.Caller{Without: proxy.Unencrypted}, two, "sc-any-2", proxy.Unencrypted, at(9))
	const id = "spiffe://example.com/ns/shop/sa/"
	address := netip.MustParseAddr("10.1.0.2")
	want := []proxy.GuardedClient{
		{Identity: id + "cart", Port: "sc-tls-1", First: at(3), Last: at(10), Connections: 2},
		{Address: address, Port: "sc-any-2", First: at(7), Last: at(9), Connections: 1, WouldRefuse: 1, Refused: 1, Reason: proxy.Unencrypted},
		{Identity: id + "other", Port: "sc-tls-1", First: at(6), Last: at(6), Refused: 1, Reason: proxy.NotListed},
	}
	require.Equal(t, want, clients.List(at(10)).Callers)
	clients.End(first, at(10))
	text, err = json.Marshal(clients.List(at(10)).Callers)
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"identity":"spiffe://example.com/ns/shop/sa/cart","port":"sc-tls-1","first":"2026-05-01T12:03:00Z","last":"2026-05-01T12:10:00Z","connections":2},
		{"address":"10.1.0.2","port":"sc-any-2","first":"2026-05-01T12:07:00Z","last":"2026-05-01T12:09:00Z","connections":1,"wouldRefuse":1,"refused":1,"reason":"plaintext"},
		{"identity":"spiffe://example.com/ns/shop/sa/other","port":"sc-tls-1","first":"2026-05-01T12:06:00Z","last":"2026-05-01T12:06:00Z","connections":0,"refused":1,"reason":"not_listed"}]`, string(text))

	for i := range 2 * proxy.MaxClients {
		clients.Refuse(stranger, netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), "sc-tls-1", proxy.NoCertificate, at(11))
	}
	list := clients.List(at(12))
	require.Len(t, list.Callers, proxy.MaxClients+2)
	require.Equal(t, want[0], list.Callers[proxy.MaxClients])
	require.Equal(t, want[2], list.Callers[proxy.MaxClients+1])
	require.Equal(t, map[string]proxy.Evicted{"sc-any-2": {Clients: 1, Last: at(9)}, "sc-tls-1": {Clients: proxy.MaxClients, Last: at(11)}}, list.EvictedStrangers)
	require.Empty(t, list.EvictedCallers, "they displace no identity")
	for i := range proxy.MaxClients {
		clients.End(clients.Call(callerOf("shop", fmt.Sprint(i)), one, "sc-tls-1", "", at(13)), at(13))
	}
	list = clients.List(at(14))
	require.Len(t, list.Callers, 2*proxy.MaxClients)
	require.Equal(t, map[string]proxy.Evicted{"sc-tls-1": {Clients: 2, Last: at(10)}}, list.EvictedCallers)
	require.Empty(t, list.Clients)
	require.Empty(t, list.Evicted)
}

func TestConnections(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		flag                int
		descriptors, memory uint64
		want                int
	}{
		{0, 1 << 20, 0, 65536},
		{0, 1 << 62, 1 << 62, 65536},
		{0, 1024, 0, 480},
		{0, 10, 0, 64},
		{0, 1 << 20, 32 * mib, 135},
		{0, 1 << 20, 8 * mib, 64},
		{0, 1 << 20, 64 * mib, 376},
		{0, 1 << 20, 512 * mib, 3749},
		{5000, 1 << 20, 32 * mib, 5000}, // an explicit flag is not reduced to the memory limit
		{5000, 1024, 0, 480},
		{10, 1 << 20, 0, 10},
	} {
		assert.Equal(t, c.want, proxy.Connections(c.flag, c.descriptors, c.memory), "%+v", c)
	}
}

func TestLimits(t *testing.T) {
	require.NoError(t, proxy.DefaultLimits().Validate())
	assert.Equal(t, 30*time.Second, proxy.DefaultLimits().Drain)
	require.NoError(t, proxy.Limits{Handshake: time.Millisecond, FirstByte: time.Millisecond}.Validate())
	for want, change := range map[string]func(*proxy.Limits){
		`--max-connections: "-1": must be positive`:         func(l *proxy.Limits) { l.MaxConnections = -1 },
		`--handshake-timeout: "0s": must be at least 1ms`:   func(l *proxy.Limits) { l.Handshake = 0 },
		`--first-byte-timeout: "-1s": must be at least 1ms`: func(l *proxy.Limits) { l.FirstByte = -time.Second },
		`--idle-timeout: "-1s": must be at least 0s`:        func(l *proxy.Limits) { l.Idle = -time.Second },
		`--drain-time: "-1s": must be at least 0s`:          func(l *proxy.Limits) { l.Drain = -time.Second },
	} {
		limits := proxy.DefaultLimits()
		change(&limits)
		require.ErrorContains(t, limits.Validate(), want)
	}

	assert.False(t, proxy.Limits{Handshake: time.Second}.Unclear(time.Second))
	assert.True(t, proxy.Limits{Handshake: time.Second}.Unclear(time.Second+1))
	l := proxy.Limits{Idle: time.Hour}
	assert.False(t, l.Expired(time.Hour-1, false, false, false))
	assert.True(t, l.Expired(time.Hour, false, false, false))
	assert.False(t, l.Expired(proxy.Kept-1, true, false, false))
	assert.False(t, proxy.Limits{}.Expired(30*time.Second-1, true, false, false))
	assert.True(t, l.Expired(proxy.Kept, true, false, false))
	assert.False(t, l.Expired(time.Minute, false, false, true), "busy connections may continue until the drain time is over")
	assert.True(t, l.Expired(time.Second, true, false, true))
	assert.False(t, proxy.Limits{}.Expired(1<<62, false, false, false))
	assert.True(t, proxy.Limits{Idle: time.Second}.Expired(time.Second, true, false, false))
	assert.False(t, l.Expired(proxy.KeptForAnswer-1, false, true, false))
	assert.True(t, proxy.Limits{}.Expired(proxy.KeptForAnswer, false, true, false))
	assert.False(t, l.Expired(time.Minute, false, true, true), "it has the drain time for its answer")
}
