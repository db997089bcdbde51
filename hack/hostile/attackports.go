package main

import (
	"context"
	"time"

	"github.com/servingcert/servingcert/test/flood"
)

// port is one of a process, which any pod of a cluster can reach.
type port struct {
	address string // HOST:PORT
	tls     bool
}

// ports returns all, with metrics and health.
func (w *world) ports() []port {
	ports := []port{{w.webhook, true}}
	for _, p := range w.Processes {
		ports = append(ports, port{p.Health(), false}, port{p.Metrics, true})
	}
	return ports
}

func portsHeaders(ctx context.Context, a *attacker) {
	a.floodPorts(ctx, podsOfTenant, flood.Header(1<<20))
}

func portsIdle(ctx context.Context, a *attacker) {
	a.floodPorts(ctx, portConnections, flood.Request)
}

const (
	portConnections = 600 // more than a port takes
	podsOfTenant    = 50  // addresses, none of which is the API server's
)

// floodPorts counts the connections that it made.
func (a *attacker) floodPorts(ctx context.Context, peers int, sends string) {
	many(len(a.ports), func(i int) {
		f := &flood.Flood{
			Target: a.ports[i].address, TLS: a.ports[i].tls,
			Connections: portConnections, Peers: peers, Sends: sends, Pause: 10 * time.Second,
		}
		f.Run(ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.sent += f.Opened()
	})
}
