package port

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// some returns n connections of a peer in a stage, the oldest first.
func some(n int, peer string, s stage, since uint64) []*conn {
	var out []*conn
	for i := range n {
		out = append(out, &conn{peer: netip.MustParseAddr(peer), stage: s, since: since + uint64(i)})
	}
	return out
}

func TestVictim(t *testing.T) {
	const a, b, six = "10.0.0.1", "10.0.0.2", "2001:db8:0:6::1"
	for name, test := range map[string]struct {
		conns []*conn
		peer  string
		stage stage
		since uint64
	}{
		"the oldest of the only peer":               {some(17, a, opening, 5), a, opening, 5},
		"the oldest of the peer with most":          {append(some(3, b, opening, 1), some(14, a, opening, 5)...), a, opening, 5},
		"newcomers before those in use":             {append(some(10, a, further, 1), some(10, b, opening, 20)...), b, opening, 20},
		"but eight newcomers of 16 are left":        {append(some(9, a, further, 1), some(8, b, opening, 20)...), a, further, 1},
		"a first request before the idle":           {append(some(10, a, idle, 1), some(7, b, first, 20)...), b, first, 20},
		"the idle before further requests":          {append(some(10, a, idle, 30), some(7, b, further, 1)...), a, idle, 30},
		"the oldest of the network with most":       {append(some(3, six, opening, 1), append(some(1, "2001:db8:0:7::1", opening, 5), append(some(1, "2001:db8:0:7::2", opening, 6), append(some(1, "2001:db8:0:7:8::", opening, 7), some(1, "2001:db8:0:7::4", opening, 8)...)...)...)...), "2001:db8:0:7::1", opening, 5},
		"in a network the peer with most":           {append(some(1, six, opening, 1), some(2, "2001:db8:0:6::9", opening, 5)...), "2001:db8:0:6::9", opening, 5},
		"IPv4 addresses are no network":             {append(some(3, a, opening, 5), append(some(2, b, opening, 1), some(2, "10.0.0.3", opening, 3)...)...), a, opening, 5},
		"connections of other stages do not matter": {append(append(some(10, a, further, 1), some(3, a, idle, 20)...), append(some(4, b, idle, 40), some(1, a, opening, 50)...)...), b, idle, 40},
	} {
		t.Run(name, func(t *testing.T) {
			found := victim(test.conns, len(test.conns)-1)
			assert.Equal(t, test.peer, found.peer.String())
			assert.Equal(t, test.stage, found.stage)
			assert.Equal(t, test.since, found.since)
		})
	}
}

// For any connections: the new one stays, no stage loses its share, and no peer's only connection of a
// stage is closed while another has two.
func TestVictimOfAnyConnections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(MinConnections, 100).Draw(t, "most")
		var conns []*conn
		var sizes [stages]int
		for i := range most {
			c := &conn{
				peer:  netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "peer")}),
				stage: stage(rapid.IntRange(0, stages-1).Draw(t, "stage")), since: uint64(i),
			}
			sizes[c.stage]++
			conns = append(conns, c)
		}
		newcomer := &conn{peer: netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "its peer")}), since: uint64(most)}
		sizes[opening]++
		conns = append(conns, newcomer)

		found := victim(conns, most)
		if found == nil || found == newcomer {
			t.Fatalf("the newcomer is closed, or nothing")
		}
		if sizes[found.stage] <= found.stage.share(most) {
			t.Fatalf("stage %d has %d of %d, and loses one", found.stage, sizes[found.stage], most)
		}
		peers := map[netip.Addr]int{}
		for _, c := range conns {
			if c.stage == found.stage {
				peers[c.peer]++
			}
			if c.stage < found.stage && sizes[c.stage] > c.stage.share(most) {
				t.Fatalf("stage %d loses one, and stage %d has %d of %d", found.stage, c.stage, sizes[c.stage], most)
			}
		}
		for peer, n := range peers {
			if n > peers[found.peer] {
				t.Fatalf("%s has %d, and %s with %d loses one", peer, n, found.peer, peers[found.peer])
			}
		}
	})
}
