package node

import (
	"context"
	"net"
	"time"
)

// resolver returns a resolver that uses the cluster's DNS, from this machine.
func (n *Node) resolver() *net.Resolver {
	return &net.Resolver{
		PreferGo: true, // Go's resolver calls Dial
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, n.DNSAddress())
		},
	}
}

// Dialer returns a dialer for the cluster's DNS names, such as web.shop.svc.cluster.local:443,
// from this machine. Names must be complete, as this machine lacks the search domains of a pod.
func (n *Node) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Resolver: n.resolver()}
}
