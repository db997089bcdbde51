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
	Port        string    `json:"port"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Connections uint64    `json:"connections"`
	// Kind is the protocol of the last connection, as Describe returns it.
	Kind Kind `json:"kind"`
}

// A ClientList is the response of the proxy at /clients, which kubectl servingcert clients reads.
type ClientList struct {
	// Since is the time at which the proxy started to record.
	Since time.Time `json:"since"`
	// Ports are the names of the proxy's ports that allow plaintext.
	Ports []string `json:"ports"`
	// Forgotten is the number of clients that were removed because MaxClients others were seen later.
	Forgotten uint64 `json:"forgotten"`
	// Clients are sorted by the time they were last seen, latest first.
	Clients []Client `json:"clients"`
}

type clientKey struct {
	address netip.Addr
	port    string
}

// Clients records plaintext clients. It is not safe for concurrent use.
type Clients struct {
	since     time.Time
	ports     []string
	forgotten uint64
	seen      map[clientKey]*Client
}

// NewClients returns a Clients that records from now on, for those of the ports that allow plaintext.
func NewClients(now time.Time, ports []Listen) *Clients {
	c := &Clients{since: now, ports: []string{}, seen: map[clientKey]*Client{}}
	for _, l := range ports {
		if l.Plaintext {
			c.ports = append(c.ports, l.Name)
		}
	}
	return c
}

// Add records a connection. If there are MaxClients already, the least recently seen one is removed.
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

// List returns the recorded clients.
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
