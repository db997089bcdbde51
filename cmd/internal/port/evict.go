package port

import (
	"context"
	"net"
	"net/netip"
)

// stage is how far a connection has come, and so what closing it costs its peer.
type stage int

// The stages, in the order in which connections are closed.
const (
	opening stage = iota // the headers of its first request are not complete, or its TLS handshake is not
	first                // its first request is being answered
	idle                 // it has had an answer, and waits for another request
	further              // another request is being answered
	stages  = iota
)

// shares are what no other stage takes from a stage, in eighths of a port. Those that open have
// half of it: whoever else holds connections of any stage, there is time to complete a handshake
// where the processor is busy. Those that were of use are kept when nothing but newcomers arrive.
var shares = [stages]int{opening: 4, first: 1, idle: 1, further: 1}

// share is how many connections of a port with room for most no other stage takes from the stage.
func (s stage) share(most int) int { return most * shares[s] / 8 }

// conn is a connection to a port.
type conn struct {
	net.Conn
	peer netip.Addr
	stop context.CancelFunc // of the context of its requests

	// What follows is guarded by the listener.
	stage   stage
	since   uint64 // when it entered the stage, in the order of all that happened
	index   int    // in the listener's connections
	evicted bool

	received int // bytes of a request whose headers are not complete
}

// victim returns which of the connections to close when there is no room for all of them:
// one of the lowest stage that has more than its share of a port with room for most. There,
// it is the one that entered the stage first, of those whose peers have most, in the network
// that has most: whoever has an IPv6 address may have all of its /64.
//
// The number of a peer's connections refuses nobody, as the API server, the kubelet and
// everybody else may have the same address, that of a node.
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
