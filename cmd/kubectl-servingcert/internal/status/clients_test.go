package status

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/proxy/clients"
)

const week = 7 * 24 * time.Hour

func before(d time.Duration) time.Time { return noon.Add(-d) }

// A client of a port that leads past the proxy is not recorded, so nothing is known about plaintext.
func TestClientsPastTheProxyAreUnknown(t *testing.T) {
	k := ClientsSituation{Ports: []string{"sc-any-8080"}, Pods: []ProxyPod{answered("a", 2*week)}, Window: week,
		Direct: map[string][]string{"9090": {"port 81 (targetPort 9090)"}}}
	assert.True(t, ClientsOf(k, noon).Clear(), "another port of the program")
	k.Direct["8080"] = []string{"port 80 (targetPort http)"}
	got := ClientsOf(k, noon)
	assert.False(t, got.Clear())
	assert.Equal(t, "the Service also has port 80 (targetPort http), which leads to the program and not through the proxy, so its clients are not recorded: set its targetPort to sc-any-8080",
		got.Ports[0].Advice)
	k.Pods[0] = answered("a", 2*week, peer("10.0.0.1", time.Hour))
	assert.Equal(t, ClientsLeft, ClientsOf(k, noon).Ports[0].Verdict)
}

func peer(address string, last time.Duration) clients.Peer {
	return clients.Peer{Address: netip.MustParseAddr(address), First: before(last + time.Hour), Last: before(last), Connections: 2, Kind: "http"}
}

// open is a client with an open connection on which neither side has begun.
func open(address string) clients.Peer {
	return clients.Peer{Address: netip.MustParseAddr(address), First: before(time.Minute), Last: noon, Connections: 1, Kind: string(proxy.KindUnknown)}
}

// answered returns a pod whose proxy has recorded for that long.
func answered(name string, looked time.Duration, peers ...clients.Peer) ProxyPod {
	return ProxyPod{Name: name, Answer: clients.Answer{Ports: []clients.PortClients{{Name: "sc-any-8080", Peers: peers, Since: before(looked)}}}}
}

// evicted returns a pod whose proxy has removed a client that was last seen that long ago.
func evicted(name string, last time.Duration) ProxyPod {
	pod := answered(name, 2*week)
	pod.Ports[0].Evicted = proxy.Evicted{Clients: 1, Last: before(last)}
	return pod
}

func located(address, name string, started time.Duration) Place {
	return Place{Address: netip.MustParseAddr(address), Name: name, Started: before(started)}
}

func TestVerdictOnPlaintextClients(t *testing.T) {
	for name, c := range map[string]struct {
		pods    []ProxyPod
		ports   []string
		verdict string
		advice  string
	}{
		"none for long enough": {
			[]ProxyPod{answered("a", 8*24*time.Hour), answered("b", week)}, nil, ClientsNone,
			"no plaintext client for 7 days: use sc-tls-8080. First add it as a separate port and roll out the pods: a pod without it is not an endpoint",
		},
		"none, and the port exists": {
			[]ProxyPod{answered("a", week)}, []string{"sc-tls-8080"}, ClientsNone, "no plaintext client for 7 days: use sc-tls-8080, which the pods already have",
		},
		"long ago":   {[]ProxyPod{answered("a", 2*week, peer("10.0.0.1", week))}, nil, ClientsNone, ""},
		"just then":  {[]ProxyPod{answered("a", 2*week, peer("10.0.0.1", week-time.Second))}, nil, ClientsLeft, "plaintext in the last 7 days from unknown: no pod has its address: move them to TLS"},
		"a new pod":  {[]ProxyPod{answered("a", 2*week), answered("b", week-time.Second)}, nil, ClientsTooSoon, ""},
		"no answer":  {[]ProxyPod{answered("a", 2*week), {Name: "b", Err: "refused"}}, nil, ClientsUnknown, ""},
		"no pod":     {nil, nil, ClientsUnknown, "no running pod of the Service has a proxy yet, so plaintext clients are not recorded: only new pods get the proxy. Roll out the pods, and run this command again"},
		"other port": {[]ProxyPod{{Name: "a", Answer: clients.Answer{Ports: []clients.PortClients{{Name: "sc-any-9090"}}}}}, nil, ClientsUnknown, ""},
		"removed from the list just then": {
			[]ProxyPod{answered("a", 2*week), evicted("b", week-time.Second)}, nil, ClientsLeft,
			"plaintext in the last 7 days from addresses that the proxies no longer list, as others were seen later: move them to TLS",
		},
		"open without a byte": {
			[]ProxyPod{answered("a", 2*week, open("10.0.0.1"))}, nil, ClientsLeft,
			"open connections without a byte from unknown: no pod has its address: a port for TLS only closes these, so find out what they are for",
		},
		"open without a byte, and plaintext": {
			[]ProxyPod{answered("a", 2*week, open("127.0.0.1"), peer("10.0.0.1", time.Hour))}, nil, ClientsLeft,
			"plaintext in the last 7 days from unknown: no pod has its address: move them to TLS; open connections without a byte from the pod itself: a port for TLS only closes these, so find out what they are for",
		},
		"open without a byte, and plaintext from there": {
			[]ProxyPod{answered("a", 2*week, open("10.0.0.1"), peer("10.0.0.1", 2*week))}, nil, ClientsLeft, "plaintext in the last 7 days from unknown: no pod has its address: move them to TLS",
		},
		"removed from the list long ago": {[]ProxyPod{evicted("a", week)}, nil, ClientsNone, ""},
		"no answer, but a client": {
			[]ProxyPod{answered("a", 2*week, peer("10.0.0.1", time.Hour)), {Name: "b", Err: "refused"}}, nil, ClientsLeft, "",
		},
	} {
		got := ClientsOf(ClientsSituation{Namespace: "shop", Service: "web", Ports: append([]string{"sc-any-8080"}, c.ports...), Pods: c.pods, Window: week}, noon)
		assert.Equal(t, c.verdict, got.Ports[0].Verdict, name)
		assert.Len(t, got.Ports, 1, name)
		assert.NotEmpty(t, got.Ports[0].Advice, name)
		if c.advice != "" {
			assert.Equal(t, c.advice, got.Ports[0].Advice, name)
		}
		assert.Equal(t, c.verdict == ClientsNone, got.Clear(), name)
	}
}

func TestClientsAreNamed(t *testing.T) {
	places := []Place{
		located("10.0.0.1", "shop Deployment/a", 2*time.Hour),
		located("10.0.0.2", "shop Deployment/a", 2*time.Hour),
		located("10.0.0.3", "shop Deployment/new", time.Minute),
		located("10.0.0.4", "shop Job/old", 5*time.Hour), located("10.0.0.4", "shop Deployment/again", 3*time.Hour), located("10.0.0.4", "shop Deployment/later", time.Minute),
		{Address: netip.MustParseAddr("192.168.0.1"), Name: "n1", Node: true},
	}
	got := ClientsOf(ClientsSituation{Ports: []string{"sc-any-8080"}, Window: week, Places: places, Pods: []ProxyPod{
		answered("p", week, peer("10.0.0.1", time.Hour), peer("10.0.0.3", time.Hour), peer("10.0.0.4", time.Hour), peer("192.168.0.1", time.Hour)),
		answered("q", week, peer("10.0.0.2", 2*time.Minute), peer("10.0.0.1", time.Minute), peer("10.9.9.9", time.Hour), peer("127.0.0.1", time.Hour)),
	}}, noon).Ports[0]
	names := map[string][]string{}
	for _, c := range got.Clients {
		names[c.Name] = c.Addresses
	}
	assert.Equal(t, map[string][]string{
		"shop Deployment/a":     {"10.0.0.1", "10.0.0.2"},
		"shop Deployment/again": {"10.0.0.4"},
		"unknown: its address now belongs to shop Deployment/new": {"10.0.0.3"},
		"node n1: a pod on its network, or traffic from outside":  {"192.168.0.1"},
		"unknown: no pod has its address":                         {"10.9.9.9"},
		"the pod itself":                                          {"127.0.0.1"},
	}, names)
	a := got.Clients[0]
	assert.Equal(t, "shop Deployment/a", a.Name, "the client that was seen last is first")
	assert.Equal(t, uint64(6), a.Connections)
	assert.Equal(t, before(time.Minute), a.Last)
	assert.Equal(t, before(2*time.Hour), a.First)
}

func TestDays(t *testing.T) {
	assert.Equal(t, "7 days", days(week))
	assert.Equal(t, "1 day", days(24*time.Hour))
	assert.Equal(t, "1h0m0s", days(time.Hour))
}
