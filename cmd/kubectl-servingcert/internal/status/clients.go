package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/proxy/clients"
)

// ClientsSituation is the input of ClientsOf.
type ClientsSituation struct {
	Namespace, Service string
	Object             *corev1.Service
	// Ports lists the targetPorts of the Service that request a proxy.
	Ports []string
	// Direct are the Service's ports that reach a port of the program past the proxy, by
	// api.ProxyPort.Upstream.
	Direct map[string][]string
	Pods   []ProxyPod
	// Places maps addresses to pods and nodes; NotSeen is why some are missing.
	Places  []Place
	NotSeen []string
	// Window is the period in which no client may have used plaintext, or may have called that the list refuses.
	Window time.Duration
}

// ProxyPod is the answer of a pod's proxy.
type ProxyPod struct {
	Name string
	clients.Answer
	// Listens are the names of its ports, and Admission says which clients it admits as soon as it has the lists of the
	// Services; nil if it has no list.
	Listens   []string
	Admission *proxy.Admission
	Err       string // why it did not answer; "" if it did
}

// Place is the pod or node that has an address.
type Place struct {
	Address netip.Addr
	// Name is NAMESPACE KIND/NAME of the workload, or the name of the node.
	Name string
	Node bool
	// Started is when the pod started, as addresses are reused.
	Started time.Time
}

// Clients lists the plaintext clients of a Service and the callers of its guarded ports, in the form of -o json.
type Clients struct {
	Namespace string        `json:"namespace"`
	Service   string        `json:"service"`
	Ports     []ClientsPort `json:"ports"`
	// Guarded are the ports that admit only listed clients, or watch; List is annotation servingcert.dev/clients.
	Guarded []CallersPort `json:"guarded,omitempty"`
	List    *ClientsList  `json:"list,omitempty"`
	// Unanswered lists the pods that did not answer: NAME: REASON.
	Unanswered []string `json:"unanswered,omitempty"`
	// NotSeen is why some clients may have no name.
	NotSeen []string `json:"notSeen,omitempty"`
}

// ClientsPort lists the plaintext clients of one port.
type ClientsPort struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	// Since is the time from which all proxies have recorded; absent if none answered.
	Since   *time.Time `json:"since,omitempty"`
	Pods    int        `json:"pods"`
	Clients []Client   `json:"clients"`
	// Evicted is the number of addresses that the proxies have evicted, and EvictedLast when one of them was last seen.
	Evicted     uint64     `json:"evicted,omitempty"`
	EvictedLast *time.Time `json:"evictedLast,omitempty"`
	// Advice is what to do.
	Advice string `json:"advice"`
}

// The verdicts on a port.
const (
	ClientsLeft    = "left"    // a client uses plaintext, or has an open connection that may be for it
	ClientsNone    = "none"    // no client has, in the whole window
	ClientsTooSoon = "tooSoon" // no client has, but not all proxies have recorded for the whole window
	ClientsUnknown = "unknown" // not all pods answered, or clients can reach the program past the proxy
)

// Client is a workload, a node or an unknown client that used plaintext.
type Client struct {
	Name        string    `json:"name"`
	Addresses   []string  `json:"addresses"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Connections uint64    `json:"connections"`
	Kinds       []string  `json:"kinds"`
	// Recent: within the window.
	Recent bool `json:"recent"`
}

// Names of clients that are not workloads.
const (
	unknownClient = "unknown"
	ownPod        = "the pod itself"
)

// ClientsOf returns the plaintext clients of each port of the Service that accepts plaintext, and the callers of each
// guarded port.
func ClientsOf(k ClientsSituation, now time.Time) Clients {
	out := Clients{Namespace: k.Namespace, Service: k.Service, Ports: []ClientsPort{}, NotSeen: k.NotSeen}
	for _, p := range k.Pods {
		if p.Err != "" {
			out.Unanswered = append(out.Unanswered, api.Escape(p.Name+": "+p.Err))
		}
	}
	places := map[netip.Addr][]Place{}
	for _, p := range k.Places {
		places[p.Address] = append(places[p.Address], p)
	}
	for _, name := range k.Ports {
		if asked, ok := api.ParseProxyPort(name); ok && asked.Plaintext {
			out.Ports = append(out.Ports, k.port(asked, places, now))
		}
		if k.guards(name) {
			out.Guarded = append(out.Guarded, k.callersOf(name, places, now))
		}
	}
	out.List = k.list(out.Guarded, now)
	return out
}

// port returns the clients of one port, and the verdict.
func (k ClientsSituation) port(asked api.ProxyPort, places map[netip.Addr][]Place, now time.Time) ClientsPort {
	p := ClientsPort{Name: asked.Name(), Clients: []Client{}}
	found := map[string]*Client{}
	for _, pod := range k.Pods {
		for _, answer := range pod.Ports {
			if answer.Name != p.Name {
				continue
			}
			p.Pods++
			if evicted := answer.Evicted; evicted.Clients > 0 {
				p.Evicted, p.EvictedLast = p.Evicted+evicted.Clients, later(p.EvictedLast, evicted.Last)
			}
			p.Since = later(p.Since, answer.Since)
			for _, peer := range answer.Peers {
				name := clientName(peer, places[peer.Address])
				if found[name] == nil {
					found[name] = &Client{Name: name, First: peer.First}
				}
				found[name].add(peer)
			}
		}
	}
	oldest := now.Add(-k.Window)
	for _, c := range found {
		c.Recent = c.Last.After(oldest)
		slices.Sort(c.Addresses)
		slices.Sort(c.Kinds)
		p.Clients = append(p.Clients, *c)
	}
	slices.SortFunc(p.Clients, func(a, b Client) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Name, b.Name)) })
	p.Verdict = k.verdict(p, oldest)
	p.Advice = k.advice(p, asked)
	return p
}

func (c *Client) add(peer clients.Peer) {
	if address := peer.Address.String(); !slices.Contains(c.Addresses, address) {
		c.Addresses = append(c.Addresses, address)
	}
	if kind := api.Escape(peer.Kind); !slices.Contains(c.Kinds, kind) {
		c.Kinds = append(c.Kinds, kind)
	}
	if peer.First.Before(c.First) {
		c.First = peer.First
	}
	if peer.Last.After(c.Last) {
		c.Last = peer.Last
	}
	c.Connections += peer.Connections
}

// clientName returns the name of a peer. Of several pods that had its address, it is the one that started
// last before the peer was last seen.
func clientName(peer clients.Peer, places []Place) string {
	if peer.Address.IsLoopback() {
		return ownPod
	}
	var best *Place
	later := ""
	for i := range places {
		p := &places[i]
		switch {
		case p.Node:
			return "node " + p.Name + ": a pod on its network, or traffic from outside"
		case p.Started.After(peer.Last):
			later = p.Name
		case best == nil || p.Started.After(best.Started):
			best = p
		}
	}
	switch {
	case best != nil:
		return best.Name
	case later != "":
		return unknownClient + ": its address now belongs to " + later
	}
	return unknownClient + ": no pod has its address"
}

func (k ClientsSituation) verdict(p ClientsPort, oldest time.Time) string {
	switch {
	case slices.ContainsFunc(p.Clients, func(c Client) bool { return c.Recent }), isAfter(p.EvictedLast, oldest):
		return ClientsLeft
	case p.Pods == 0, len(k.direct(p.Name)) > 0, k.unanswered():
		return ClientsUnknown
	case p.Since.After(oldest):
		return ClientsTooSoon
	}
	return ClientsNone
}

// unanswered reports whether a pod did not answer.
func (k ClientsSituation) unanswered() bool {
	return slices.ContainsFunc(k.Pods, func(pod ProxyPod) bool { return pod.Err != "" })
}

// direct returns the Service's ports that lead to the same port of the program as the named port, but not through the
// proxy.
func (k ClientsSituation) direct(port string) []string {
	asked, _ := api.ParseProxyPort(port)
	return k.Direct[asked.Upstream]
}

// pastProxy returns what to do about these ports; more is what else they lack.
func (k ClientsSituation) pastProxy(port, more string) string {
	return fmt.Sprintf("the Service also has %s, which leads to the program and not through the proxy, so its clients are not recorded%s: set its targetPort to %s",
		api.Listed(k.direct(port), 3), more, port)
}

// advice returns the next step for a port.
func (k ClientsSituation) advice(p ClientsPort, asked api.ProxyPort) string {
	window := days(k.Window)
	asked.Plaintext = false
	strict := asked.Name()
	switch p.Verdict {
	case ClientsLeft:
		return p.left(window)
	case ClientsUnknown:
		if len(k.Pods) == 0 {
			return "no running pod of the Service has a proxy yet, so plaintext clients are not recorded: only new pods get the proxy. Roll out the pods, and run this command again"
		}
		if len(k.direct(p.Name)) > 0 {
			return k.pastProxy(p.Name, "")
		}
		return "not all pods of the Service have answered, so there may be plaintext clients"
	case ClientsTooSoon:
		return fmt.Sprintf("no plaintext client since %s, which is less than %s ago", p.Since.UTC().Format(time.DateTime), window)
	}
	if slices.Contains(k.Ports, strict) {
		return fmt.Sprintf("no plaintext client for %s: use %s, which the pods already have", window, strict)
	}
	return fmt.Sprintf("no plaintext client for %s: use %s. First add it as a separate port and roll out the pods: a pod without it is not an endpoint", window, strict)
}

// left returns the next step for a port with clients.
func (p ClientsPort) left(window string) string {
	var names, unclear, steps []string
	for _, c := range p.Clients {
		switch {
		case !c.Recent:
		case slices.Equal(c.Kinds, []string{string(proxy.KindUnknown)}):
			unclear = append(unclear, c.Name)
		default:
			names = append(names, c.Name)
		}
	}
	if len(names)+len(unclear) == 0 {
		names = []string{"addresses that the proxies no longer list, as others were seen later"}
	}
	if len(names) > 0 {
		steps = append(steps, fmt.Sprintf("plaintext in the last %s from %s: move them to TLS", window, api.Listed(names, 5)))
	}
	if len(unclear) > 0 {
		steps = append(steps, fmt.Sprintf("open connections without a byte from %s: a port for TLS only closes these, so find out what they are for", api.Listed(unclear, 5)))
	}
	return strings.Join(steps, "; ")
}

// days returns a duration in days, if it is a multiple of one.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d == day {
		return "1 day"
	}
	if d > 0 && d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}

// Clear reports whether, in the whole window, no client has used plaintext with any port, and no guarded port had a
// client that its list refuses.
func (c Clients) Clear() bool {
	return len(c.Unanswered) == 0 && (c.List == nil || c.List.Invalid == "") &&
		!slices.ContainsFunc(c.Ports, func(p ClientsPort) bool { return p.Verdict != ClientsNone }) &&
		!slices.ContainsFunc(c.Guarded, func(p CallersPort) bool { return p.Verdict != ClientsNone })
}
