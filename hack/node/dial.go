package node

import (
	"context"
	"net"
	"time"
)

// resolver asks the cluster's DNS for names, from this machine.
func (n *Node) resolver() *net.Resolver {
	return &net.Resolver{
		PreferGo: true, // which uses Dial
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, n.DNSAddress())
		},
	}
}

// Dialer dials Services and pods by their names in the cluster, such as
// web.shop.svc.cluster.local:443, from this machine. A name needs all of its labels,
// as this machine has not the search domains of a pod.
func (n *Node) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Resolver: n.resolver()}
}
