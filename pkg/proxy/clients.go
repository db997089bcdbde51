package proxy

import (
	"net/netip"
	"slices"
	"time"
)

// MaxClients is the maximum number of plaintext clients in a list.
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

type clientKey struct {
	address netip.Addr
	port    string
}

// Clients records plaintext clients. It is not safe for concurrent use.
type Clients struct {
	since   time.Time
	ports   []string
	seen    map[clientKey]*Record
	evicted map[string]*evicted // by port
}

// Record is a client, and how many of its connections have not ended.
type Record struct {
	client  Client
	open    int
	evicted *evicted // that it was added to; nil while Clients has it
}

type evicted struct {
	Evicted
	open int
}

// NewClients returns a Clients that records from now on, for those of the ports that allow plaintext.
func NewClients(now time.Time, ports []Listen) *Clients {
	c := &Clients{since: now, ports: []string{}, seen: map[clientKey]*Record{}, evicted: map[string]*evicted{}}
	for _, l := range ports {
		if l.Plaintext {
			c.ports = append(c.ports, l.Name)
		}
	}
	return c
}

// Add records a connection, until End is called with the result. If there are MaxClients already, the least
// recently seen one is removed.
func (c *Clients) Add(address netip.Addr, port string, kind Kind, now time.Time) *Record {
	key := clientKey{address.Unmap().WithZone(""), port}
	r := c.seen[key]
	if r == nil {
		if len(c.seen) >= MaxClients {
			c.evict(now)
		}
		r = &Record{client: Client{Address: key.address, Port: port, First: now}}
		c.seen[key] = r
	}
	r.client.Last, r.client.Kind = now, kind
	r.client.Connections++
	r.open++
	return r
}

// End records that a connection has ended.
func (c *Clients) End(r *Record, now time.Time) {
	r.open--
	r.client.Last = now
	if r.evicted != nil {
		r.evicted.open--
		r.evicted.Last = now
	}
}

func (r *Record) lastSeen(now time.Time) time.Time {
	if r.open > 0 {
		return now
	}
	return r.client.Last
}

func (c *Clients) evict(now time.Time) {
	var oldest *Record
	for _, r := range c.seen {
		if oldest == nil || r.lastSeen(now).Before(oldest.lastSeen(now)) {
			oldest = r
		}
	}
	port := oldest.client.Port
	delete(c.seen, clientKey{oldest.client.Address, port})
	f := c.evicted[port]
	if f == nil {
		f = &evicted{}
		c.evicted[port] = f
	}
	f.Clients++
	f.open += oldest.open
	if oldest.client.Last.After(f.Last) {
		f.Last = oldest.client.Last
	}
	oldest.evicted = f
}

// List returns the recorded clients. Those with an open connection were last seen now.
func (c *Clients) List(now time.Time) ClientList {
	list := ClientList{Since: c.since, Ports: c.ports, Clients: make([]Client, 0, len(c.seen))}
	for _, r := range c.seen {
		client := r.client
		client.Last = r.lastSeen(now)
		list.Clients = append(list.Clients, client)
	}
	slices.SortFunc(list.Clients, func(a, b Client) int {
		if order := b.Last.Compare(a.Last); order != 0 {
			return order
		}
		return a.Address.Compare(b.Address)
	})
	for port, f := range c.evicted {
		if list.Evicted == nil {
			list.Evicted = map[string]Evicted{}
		}
		if f.open > 0 {
			f.Last = now
		}
		list.Evicted[port] = f.Evicted
	}
	return list
}
