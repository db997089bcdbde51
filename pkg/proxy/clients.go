package proxy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// MaxClients is the maximum number in a list: of plaintext clients, of identities, and of addresses
// without an identity.
const MaxClients = 256

// A Client is an address from which plaintext was received on a port that allows it.
type Client struct {
	Address netip.Addr `json:"address"`
	// Port is the name of the proxy's port.
	Port  string    `json:"port"`
	First time.Time `json:"first"`
	// Last is the time at which the last of its connections ended, or now.
	Last        time.Time `json:"last"`
	Connections uint64    `json:"connections"`
	// Kind is the protocol of the last connection, as Describe returns it.
	Kind Kind `json:"kind"`
}

// Evicted are the clients of one port that were removed because MaxClients others were seen later.
type Evicted struct {
	Clients uint64 `json:"clients"`
	// Last is the time at which one of them was last seen.
	Last time.Time `json:"last"`
}

// A ClientList is the response of the proxy at /clients, which kubectl servingcert clients reads.
type ClientList struct {
	// Since is the time at which the proxy started to record.
	Since time.Time `json:"since"`
	// Ports are the names of the proxy's ports that allow plaintext.
	Ports []string `json:"ports"`
	// Evicted has an entry for each port of which a client was removed.
	Evicted map[string]Evicted `json:"evicted,omitempty"`
	// Clients are sorted by the time they were last seen, latest first.
	Clients []Client `json:"clients"`
	// Unclear are the clients with open connections of KindUnknown, at most MaxClients, in the order of the first of these
	// connections. They may speak plaintext or TLS, and are not remembered.
	Unclear []Client `json:"unclear,omitempty"`
	// Guarded are the ports that now admit only listed clients, or count who would be refused.
	Guarded []GuardedPort `json:"guarded,omitempty"`
	// Callers are clients of guarded ports, in the order of Clients.
	Callers []GuardedClient `json:"callers,omitempty"`
	// EvictedCallers is Evicted for Callers with a verified identity, and EvictedStrangers for those without one.
	EvictedCallers   map[string]Evicted `json:"evictedCallers,omitempty"`
	EvictedStrangers map[string]Evicted `json:"evictedStrangers,omitempty"`
}

// AddUnclear adds an open connection of KindUnknown, if there are not too many clients.
func (l *ClientList) AddUnclear(address netip.Addr, port string, first, now time.Time) {
	address = address.Unmap().WithZone("")
	i := slices.IndexFunc(l.Unclear, func(c Client) bool { return c.Address == address && c.Port == port })
	switch {
	case i >= 0:
		l.Unclear[i].Connections++
	case len(l.Unclear) < MaxClients:
		l.Unclear = append(l.Unclear, Client{Address: address, Port: port, First: first, Last: now, Connections: 1, Kind: KindUnknown})
	}
}

// A GuardedPort is a port of the proxy that is guarded.
type GuardedPort struct {
	Port string `json:"port"`
	// Watch is true if it admits all clients.
	Watch bool `json:"watch,omitempty"`
	// Since is the time from which it is guarded.
	Since time.Time `json:"since"`
}

// A GuardedClient is a client of a guarded port.
type GuardedClient struct {
	// Identity is its SPIFFE ID. If the client was refused, it has not proven that it has the key.
	Identity string `json:"identity,omitempty"`
	// Address is that of clients without a verified identity.
	Address netip.Addr `json:"address,omitzero"`
	Port    string     `json:"port"`
	First   time.Time  `json:"first"`
	// Last is as in Client.
	Last time.Time `json:"last"`
	// Connections were admitted. WouldRefuse of them were so only because the port watches.
	Connections uint64 `json:"connections"`
	WouldRefuse uint64 `json:"wouldRefuse,omitempty"`
	Refused     uint64 `json:"refused,omitempty"`
	// Reason is that of the last connection which was or would have been refused.
	Reason Reason `json:"reason,omitempty"`
}

// Clients records plaintext clients, and those of guarded ports. It is not safe for concurrent use.
type Clients struct {
	since   time.Time
	ports   []string
	guarded []GuardedPort

	plaintext table
	// Strangers have a table of their own, so that they cannot displace clients with an identity.
	identities, strangers table
}

// NewClients returns a Clients that records from now on, for those of the ports that allow plaintext.
func NewClients(now time.Time, ports []Listen) *Clients {
	c := &Clients{since: now, ports: []string{}, plaintext: newTable(), identities: newTable(), strangers: newTable()}
	for _, l := range ports {
		if l.Plaintext {
			c.ports = append(c.ports, l.Name)
		}
	}
	return c
}

// Guard records which of the ports are guarded from now on.
func (c *Clients) Guard(now time.Time, ports []Listen, by *Admission) {
	before := c.guarded
	c.guarded = nil
	for _, l := range ports {
		guard := by.Guard(l.Name)
		if guard == nil {
			continue
		}
		p := GuardedPort{l.Name, guard.Watch, now}
		if i := slices.IndexFunc(before, func(b GuardedPort) bool { return b.Port == l.Name }); i >= 0 {
			p.Since = before[i].Since
		}
		c.guarded = append(c.guarded, p)
	}
}

// Add records a connection of a plaintext client, until End is called with the result. If there are
// MaxClients already, the least recently seen one is removed.
func (c *Clients) Add(address netip.Addr, port string, kind Kind, now time.Time) *Record {
	r := c.plaintext.add(clientKey{address: plain(address), port: port}, now)
	r.kind = kind
	r.connections++
	return r
}

// Call is Add for a client of a guarded port. reason is why it would be refused if the port did not
// watch, or "".
func (c *Clients) Call(caller Caller, address netip.Addr, port string, reason Reason, now time.Time) *Record {
	r := c.caller(caller, address, port, now)
	r.connections++
	if reason != "" {
		r.reason = reason
		r.wouldRefuse++
	}
	return r
}

// Refuse records a connection of a client that a guarded port refused.
func (c *Clients) Refuse(caller Caller, address netip.Addr, port string, reason Reason, now time.Time) {
	r := c.caller(caller, address, port, now)
	r.reason = reason
	r.refused++
	c.End(r, now)
}

func (c *Clients) caller(caller Caller, address netip.Addr, port string, now time.Time) *Record {
	if caller.Without != "" {
		return c.strangers.add(clientKey{address: plain(address), port: port}, now)
	}
	return c.identities.add(clientKey{id: caller.ID, port: port}, now)
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// End records that a connection has ended.
func (c *Clients) End(r *Record, now time.Time) {
	r.open--
	r.last = now
	if r.evicted != nil {
		r.evicted.open--
		r.evicted.Last = now
	}
}

// List returns the recorded clients. Those with an open connection were last seen now.
func (c *Clients) List(now time.Time) ClientList {
	list := ClientList{Since: c.since, Ports: c.ports, Clients: make([]Client, 0, len(c.plaintext.seen)), Guarded: c.guarded}
	for _, r := range sorted(now, c.plaintext) {
		list.Clients = append(list.Clients, Client{r.address, r.port, r.first, r.lastSeen(now), r.connections, r.kind})
	}
	list.Evicted = c.plaintext.list(now)
	for _, r := range sorted(now, c.identities, c.strangers) {
		caller := GuardedClient{
			Address: r.address, Port: r.port, First: r.first, Last: r.lastSeen(now),
			Connections: r.connections, WouldRefuse: r.wouldRefuse, Refused: r.refused, Reason: r.reason,
		}
		if r.id != (pki.SPIFFEID{}) {
			caller.Identity = r.id.String()
		}
		list.Callers = append(list.Callers, caller)
	}
	list.EvictedCallers, list.EvictedStrangers = c.identities.list(now), c.strangers.list(now)
	return list
}
