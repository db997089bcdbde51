//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// dualStackScene: all pods have an address of each family. The clients connect to each address of the
// Services and pods. One of them has a proxy, which listens on a loopback address of each family.
func dualStackScene() *scene {
	of := func(service string, port int) server {
		return server{namespace: "e2e-dualstack", service: service, secret: service + "-tls", port: port, reloads: true}
	}
	both, six, beside := of("both", 8443), of("six", 8443), of("beside", 15444)
	s := &scene{
		name: "dualstack", about: "Services of both families and of IPv6 only, a proxy by IPv6", manifest: "dualstack.yaml",
		servers: []server{both, six, beside},
		leftOut: func(c *cluster) string {
			if c.machine == nil || c.machine.V6 == nil {
				return "needs a node on this machine, with IPv6"
			}
			return ""
		},
	}
	s.up = func(t *testing.T, c *cluster) {
		for _, srv := range s.servers {
			c.starts(t, srv, "/", "hello from "+srv.service)
			s.routes = append(s.routes, c.addressesOf(t, srv)...)
		}
		c.servesPlaintext(t, "http://"+beside.name()+"/", "hello from beside")
		eventually(t, starting, "the client that connects", func(ctx context.Context) error { return c.rolledOut(ctx, clientsNamespace, families) })
		c.exchangeFrom(t, families, []handshake.Target{connectsTo(beside, 80), connectsTo(beside, 443), connectsTo(both, 443)})
		byFamily := map[bool]int{}
		for _, route := range s.routes {
			byFamily[netip.MustParseAddrPort(route.Address).Addr().Is6()]++
		}
		s.note(fmt.Sprintf("tested at %d IPv6 addresses and %d IPv4 addresses", byFamily[true], byFamily[false]))
	}
	s.alone = func(t *testing.T, c *cluster) {
		s.note("a client without TLS, whose proxy connects by IPv6 and IPv4: " + c.exchanged(t, families))
	}
	return s
}

// connectsTo is a port of the server, in plaintext by the name in the client's hosts file. At 443, only the client's proxy
// accepts that.
func connectsTo(s server, port int) handshake.Target {
	return handshake.Target{Address: fmt.Sprintf("%s.%s:%d", s.service, s.namespace, port), Name: s.name(), Exchange: "http", Plaintext: true}
}

// addressesOf returns the addresses of a server and of its pods, which have one of each family.
func (c *cluster) addressesOf(t *testing.T, s server) (all []handshake.Target) {
	t.Helper()
	svc, err := c.service(t.Context(), s.namespace, s.service)
	require.NoError(t, err)
	for _, ip := range svc.Spec.ClusterIPs {
		all = append(all, handshake.Target{Address: net.JoinHostPort(ip, "443"), Name: s.name()})
	}
	pods, err := c.podsOf(t.Context(), s)
	require.NoError(t, err)
	for i := range pods {
		if assert.Len(t, pods[i].Status.PodIPs, 2, "addresses of pod %s", pods[i].Name) {
			all = append(all, handshake.Target{Address: net.JoinHostPort(pods[i].Status.PodIPs[1].IP, fmt.Sprint(s.port)), Name: s.name()})
		}
	}
	return all
}
