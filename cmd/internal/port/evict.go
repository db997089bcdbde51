package port

import (
	"context"
	"net"
	"net/netip"
)

// stage is how far a connection has come, and so how much its peer loses if it is closed.
type stage int

// The stages, in the order in which connections are closed.
const (
	opening stage = iota // the headers of its first request are not complete, or its TLS handshake is not
	first                // its first request is being answered
	idle                 // it has had an answer, and waits for another request
	further              // another request is being answered
	stages  = iota
)

// shares are the numbers of connections that other stages cannot take from a stage, in eighths of a
// port. Opening connections have half of the port, so that a handshake can complete on a busy processor
// whoever holds the other connections. Connections that were useful survive a flood of new ones.
var shares = [stages]int{opening: 4, first: 1, idle: 1, further: 1}

// share returns the number of connections that other stages cannot take from s, of at most most.
func (s stage) share(most int) int { return most * shares[s] / 8 }

// conn is a connection to a port.
type conn struct {
	net.Conn
	peer netip.Addr
	stop context.CancelFunc // cancels its requests

	// The fields below are guarded by the listener.
	stage   stage
	since   uint64 // sequence number of its last change of stage
	index   int    // in the listener's connections
	evicted bool

	received int // bytes of a request whose headers are not complete
}

// victim returns the connection to close when there are more than most: one of the lowest stage that
// has more than its share. Within the stage, it is the oldest connection of the peer with the most
// connections in the network with the most, as a client may own a whole /64 of IPv6 addresses.
//
// A peer's number of connections alone never refuses it: the API server, the kubelet and all others
// may have the same address, that of a node.
func victim(conns []*conn, most int) *conn {
	var sizes [stages]int
	for _, c := range conns {
		sizes[c.stage]++
	}
	from := opening
	for from < further && sizes[from] <= from.share(most) {
		from++
	}
	peers, networks := map[netip.Addr]int{}, map[[8]byte]int{}
	for _, c := range conns {
		if c.stage != from {
			continue
		}
		peers[c.peer]++
		if c.peer.Is6() {
			networks[networkOf(c.peer)]++
		}
	}
	rank := func(c *conn) (network, peer int) {
		peer = peers[c.peer]
		if c.peer.Is6() {
			return networks[networkOf(c.peer)], peer
		}
		return peer, peer
	}
	var found *conn
	var network, peer int // the rank of found
	for _, c := range conns {
		if c.stage != from {
			continue
		}
		n, p := rank(c)
		if found == nil || n > network || n == network && (p > peer || p == peer && c.since < found.since) {
			found, network, peer = c, n, p
		}
	}
	return found
}

// networkOf returns the first 64 bits of an IPv6 address.
func networkOf(peer netip.Addr) [8]byte {
	b := peer.As16()
	return [8]byte(b[:8])
}
