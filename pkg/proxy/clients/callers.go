package clients

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// PortCallers are the callers of one guarded port of the proxy.
type PortCallers struct {
	Name    string // such as sc-tls-8080
	Callers []Caller
	// Evicted are the callers with an identity that were removed because others, perhaps of other ports, were seen
	// later, and EvictedStrangers those without one.
	Evicted, EvictedStrangers proxy.Evicted
	// Since is the time from which the port is guarded, and records.
	Since time.Time
}

// Caller is a client of a guarded port.
type Caller struct {
	proxy.Caller
	Address     netip.Addr // of a client without an identity
	First, Last time.Time
	// Connections were admitted, and Refused were not. A client that was only refused may not have the key of its identity.
	Connections, Refused uint64
}

// callersOf returns the callers of a response. Those of ports that are not guarded any more are left out.
func callersOf(list proxy.ClientList) ([]PortCallers, error) {
	var ports []PortCallers
	for i, g := range list.Guarded {
		if _, ok := api.ParseProxyPort(g.Port); !ok {
			return nil, fmt.Errorf("guarded[%d].port: %q: must be sc-tls-PORT or sc-any-PORT", i, api.Shorten(g.Port, 20))
		}
		ports = append(ports, PortCallers{Name: g.Port, Since: g.Since, Evicted: list.EvictedCallers[g.Port], EvictedStrangers: list.EvictedStrangers[g.Port]})
	}
	for i, c := range list.Callers {
		who, err := callerOf(c)
		if err != nil {
			return nil, fmt.Errorf("callers[%d].%w", i, err)
		}
		if at := slices.IndexFunc(ports, func(p PortCallers) bool { return p.Name == c.Port }); at >= 0 {
			ports[at].Callers = append(ports[at].Callers, who)
		}
	}
	return ports, nil
}

func callerOf(c proxy.GuardedClient) (Caller, error) {
	who := Caller{Address: c.Address.Unmap().WithZone(""), First: c.First, Last: c.Last, Connections: c.Connections, Refused: c.Refused}
	if c.Identity == "" {
		who.Without = c.Reason
		switch {
		case !c.Address.IsValid():
			return who, errors.New("address: must be an IP address without an identity")
		case !slices.Contains(proxy.Reasons(), c.Reason) || c.Reason == proxy.NotListed:
			return who, fmt.Errorf("reason: %q: must be why it has no identity", api.Shorten(string(c.Reason), 20))
		}
		return who, nil
	}
	uri, err := url.Parse(c.Identity)
	if err != nil {
		return who, fmt.Errorf("identity: %q: must be a URI", api.Shorten(c.Identity, 80))
	}
	var ok bool
	if who.ID, ok = pki.ParseSPIFFEID(uri); !ok {
		return who, fmt.Errorf("identity: %q: must be the SPIFFE ID of a ServiceAccount", api.Shorten(c.Identity, 80))
	}
	return who, nil
}
