// Package clients reads a proxy's response to GET /clients, a [proxy.ClientList]: the plaintext clients of its
// ports for TLS and plaintext, and the callers of its guarded ports.
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

// Answer is a response.
type Answer struct {
	Ports   []PortClients
	Guarded []PortCallers
}

// Parse parses and validates a response. Pods are not trusted, so it may have any content.
func Parse(data []byte) (Answer, error) {
	if len(data) > MaxSize {
		return Answer{}, fmt.Errorf("larger than %d KiB", MaxSize>>10)
	}
	var list proxy.ClientList
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&list); err != nil {
		return Answer{}, fmt.Errorf("must be a list of clients: %w", err)
	}
	if d.More() {
		return Answer{}, errors.New("must be one list of clients")
	}
	if max(len(list.Clients), len(list.Unclear), len(list.Ports), len(list.Guarded), len(list.Callers)/2) > proxy.MaxClients {
		return Answer{}, fmt.Errorf("more than %d clients or ports", proxy.MaxClients)
	}
	ports, err := plaintextOf(list)
	if err != nil {
		return Answer{}, err
	}
	guarded, err := callersOf(list)
	if err != nil {
		return Answer{}, err
	}
	return Answer{ports, guarded}, nil
}

// plaintextOf returns the plaintext clients of a response.
func plaintextOf(list proxy.ClientList) ([]PortClients, error) {
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
