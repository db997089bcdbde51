// Package clients reads what the proxy of a pod answers to GET /clients: who spoke plaintext to the
// ports at which it takes TLS and plaintext. The form is [proxy.ClientList].
package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// Path is where the proxy answers.
const Path = "/clients"

// MaxSize is how many bytes of an answer are read.
const MaxSize = 1 << 20

// PortClients are the plaintext clients of one port of the proxy.
type PortClients struct {
	Name  string // such as sc-any-8080
	Peers []Peer
	// Evicted is how many peers of all ports were forgotten because others were seen later.
	Evicted uint64
	// Since is when the proxy began to look.
	Since time.Time
}

// Peer is an address from which plaintext was spoken.
type Peer struct {
	Address     netip.Addr
	First, Last time.Time
	Connections uint64
	// Kind is what the last connection began with, such as http.
	Kind string
}

// Parse reads an answer. A pod answers what it likes: what cannot be one is an error.
func Parse(data []byte) ([]PortClients, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("larger than %d KiB", MaxSize>>10)
	}
	var list proxy.ClientList
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("must be a list of plaintext clients: %w", err)
	}
	if d.More() {
		return nil, errors.New("must be one list of plaintext clients")
	}
	if len(list.Clients) > proxy.MaxClients || len(list.Ports) > proxy.MaxClients {
		return nil, fmt.Errorf("more than %d clients or ports", proxy.MaxClients)
	}
	ports := make([]PortClients, len(list.Ports))
	for i, name := range list.Ports {
		if _, ok := api.ParseProxyPort(name); !ok {
			return nil, fmt.Errorf("ports[%d]: %q: must be sc-tls-PORT or sc-any-PORT", i, api.Shorten(name, 20))
		}
		ports[i] = PortClients{Name: name, Peers: []Peer{}, Evicted: list.Forgotten, Since: list.Since}
	}
	for i, c := range list.Clients {
		at := slices.Index(list.Ports, c.Port)
		switch {
		case at < 0:
			return nil, fmt.Errorf("clients[%d].port: %q: must be one of ports", i, api.Shorten(c.Port, 20))
		case !c.Address.IsValid():
			return nil, fmt.Errorf("clients[%d].address: must be an IP address", i)
		}
		ports[at].Peers = append(ports[at].Peers, Peer{c.Address.Unmap().WithZone(""), c.First, c.Last, c.Connections, api.Shorten(string(c.Kind), 20)})
	}
	return ports, nil
}
