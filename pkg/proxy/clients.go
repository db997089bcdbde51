package proxy

import (
	"net/netip"
	"slices"
	"time"
)

// MaxClients is how many plaintext clients are remembered.
const MaxClients = 256

// A Client is an address from which plaintext was spoken to a port that allows it.
type Client struct {
	Address netip.Addr `json:"address"`
	// Port is the name of the proxy's port.
	Port        string    `json:"port"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Connections uint64    `json:"connections"`
	// Kind is what the last connection began with.
	Kind Kind `json:"kind"`
}

// A ClientList is what the proxy answers under /clients, and kubectl servingcert clients reads.
type ClientList struct {
	// Since is when the proxy began to look.
	Since time.Time `json:"since"`
	// Ports are the names of its ports that allow plaintext.
	Ports []string `json:"ports"`
	// Forgotten is how many were left out because MaxClients others were seen later.
	Forgotten uint64 `json:"forgotten"`
	// Clients are sorted by the time they were last seen, latest first.
	Clients []Client `json:"clients"`
}

type clientKey struct {
	address netip.Addr
	port    string
}

// Clients remembers who spoke plaintext. It is not safe for concurrent use.
type Clients struct {
	since     time.Time
	ports     []string
	forgotten uint64
	seen      map[clientKey]*Client
}

// NewClients returns a Clients that begins to look now, at those of the ports that allow plaintext.
func NewClients(now time.Time, ports []Listen) *Clients {
	c := &Clients{since: now, ports: []string{}, seen: map[clientKey]*Client{}}
	for _, l := range ports {
		if l.Plaintext {
			c.ports = append(c.ports, l.Name)
		}
	}
	return c
}

// Add remembers a connection. If there is no room, the client that was seen last the longest ago
// is forgotten.
func (c *Clients) Add(address netip.Addr, port string, kind Kind, now time.Time) {
	key := clientKey{address.Unmap().WithZone(""), port}
	client := c.seen[key]
	if client == nil {
		if len(c.seen) >= MaxClients {
			c.forget()
		}
		client = &Client{Address: key.address, Port: port, First: now}
		c.seen[key] = client
	}
	client.Last, client.Kind = now, kind
	client.Connections++
}

func (c *Clients) forget() {
	var oldest *Client
	for _, client := range c.seen {
		if oldest == nil || client.Last.Before(oldest.Last) {
			oldest = client
		}
	}
	delete(c.seen, clientKey{oldest.Address, oldest.Port})
	c.forgotten++
}

// List returns those that are remembered.
func (c *Clients) List() ClientList {
	list := ClientList{Since: c.since, Ports: c.ports, Forgotten: c.forgotten, Clients: make([]Client, 0, len(c.seen))}
	for _, client := range c.seen {
		list.Clients = append(list.Clients, *client)
	}
	slices.SortFunc(list.Clients, func(a, b Client) int {
		if order := b.Last.Compare(a.Last); order != 0 {
			return order
		}
		return a.Address.Compare(b.Address)
	})
	return list
}
