// Package clients reads a proxy's response to GET /clients: the plaintext clients of its ports for TLS
// and plaintext, as a [proxy.ClientList].
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

// Path is the path of the list.
const Path = "/clients"

// MaxSize is the maximum size of a response, in bytes.
const MaxSize = 1 << 20

// PortClients are the plaintext clients of one port of the proxy.
type PortClients struct {
	Name  string // such as sc-any-8080
	Peers []Peer
	// Evicted are the peers that were removed because others, perhaps of other ports, were seen later.
	Evicted proxy.Evicted
	// Since is the time at which the proxy started to record.
	Since time.Time
}

// Peer is an address from which plaintext was received, or with open connections of proxy.KindUnknown.
type Peer struct {
	Address     netip.Addr
	First, Last time.Time
	Connections uint64
	// Kind is the protocol of the last connection, such as http.
	Kind string
}

// Parse parses and validates a response. Pods are not trusted, so it may have any content.
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
	if len(list.Clients) > proxy.MaxClients || len(list.Unclear) > proxy.MaxClients || len(list.Ports) > proxy.MaxClients {
		return nil, fmt.Errorf("more than %d clients or ports", proxy.MaxClients)
	}
	ports := make([]PortClients, len(list.Ports))
	for i, name := range list.Ports {
		if _, ok := api.ParseProxyPort(name); !ok {
			return nil, fmt.Errorf("ports[%d]: %q: must be sc-tls-PORT or sc-any-PORT", i, api.Shorten(name, 20))
		}
		ports[i] = PortClients{Name: name, Peers: []Peer{}, Evicted: list.Evicted[name], Since: list.Since}
	}
	if err := addPeers(ports, "clients", list.Clients); err != nil {
		return nil, err
	}
	return ports, addPeers(ports, "unclear", list.Unclear)
}

// addPeers adds the clients in a field of a response to their ports.
func addPeers(ports []PortClients, field string, all []proxy.Client) error {
	for i, c := range all {
		at := slices.IndexFunc(ports, func(p PortClients) bool { return p.Name == c.Port })
		switch {
		case at < 0:
			return fmt.Errorf("%s[%d].port: %q: must be one of ports", field, i, api.Shorten(c.Port, 20))
		case !c.Address.IsValid():
			return fmt.Errorf("%s[%d].address: must be an IP address", field, i)
		}
		ports[at].Peers = append(ports[at].Peers, Peer{c.Address.Unmap().WithZone(""), c.First, c.Last, c.Connections, api.Shorten(string(c.Kind), 20)})
	}
	return nil
}
