package server

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nameServer is a Resolver under control of a test.
type nameServer struct {
	*names
	passed  atomic.Int64 // on the clock
	lookups atomic.Int64

	mu     sync.Mutex
	answer []netip.Addr
	err    error
	hold   chan struct{} // what lookups wait for; nil: nothing
}

func newNameServer(t *testing.T) *nameServer {
	checkLeaks(t)
	n := &nameServer{}
	n.names = newNames("api.shop.svc.cluster.local.", n.resolve, nil, func() time.Time { return time.Unix(0, n.passed.Load()) })
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go n.run(ctx)
	return n
}

func (n *nameServer) resolve(ctx context.Context, _ string) ([]netip.Addr, error) {
	n.lookups.Add(1)
	n.mu.Lock()
	answer, err, hold := n.answer, n.err, n.hold
	n.mu.Unlock()
	if hold == nil {
		return answer, err
	}
	select {
	case <-hold:
		return answer, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *nameServer) set(answer string, err error, hold chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer, n.err, n.hold = nil, err, hold
	if answer != "" {
		n.answer = []netip.Addr{netip.MustParseAddr(answer)}
	}
}

func (n *nameServer) pass(d time.Duration) { n.passed.Add(int64(d)) }

// requireAnswer requires an address after a number of lookups in total.
func (n *nameServer) requireAnswer(t *testing.T, address string, lookups int64) {
	t.Helper()
	got, err := n.addresses(t.Context())
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr(address)}, got)
	require.Equal(t, lookups, n.lookups.Load())
}

var errNoDNS = errors.New("no name server answers")

func TestNamesAreKept(t *testing.T) {
	n := newNameServer(t)
	n.set("10.0.0.1", nil, nil)
	n.requireAnswer(t, "10.0.0.1", 1)
	n.set("10.0.0.2", nil, nil)
	n.pass(answerFresh - 1)
	n.requireAnswer(t, "10.0.0.1", 1)
	n.pass(1)
	n.requireAnswer(t, "10.0.0.2", 2)
	n.requireAnswer(t, "10.0.0.2", 2)
}

// While DNS fails, the last good answer is used, and DNS is asked once a second.
func TestNamesWhileDNSFails(t *testing.T) {
	n := newNameServer(t)
	n.set("", errNoDNS, nil)
	for i := range 2 {
		_, err := n.addresses(t.Context())
		require.ErrorIs(t, err, errNoDNS)
		require.EqualValues(t, i+1, n.lookups.Load(), "without an answer, each connection asks")
	}
	n.set("10.0.0.1", nil, nil)
	n.requireAnswer(t, "10.0.0.1", 3)
	for i, answer := range []string{"", "127.1.0.1", "0.0.0.0"} { // no answer, and two that are refused
		n.set(answer, map[bool]error{true: errNoDNS}[answer == ""], nil)
		n.pass(answerFresh)
		n.requireAnswer(t, "10.0.0.1", int64(i+4))
		n.requireAnswer(t, "10.0.0.1", int64(i+4))
	}
	n.pass(lookupPause)
	n.requireAnswer(t, "10.0.0.1", 7)
	n.set("", errNoDNS, nil)
	n.pass(answerUsable - n.clock().Sub(n.goodAt) - 1)
	n.requireAnswer(t, "10.0.0.1", 8)
	n.pass(1)
	_, err := n.addresses(t.Context())
	require.ErrorIs(t, err, errNoDNS, "after an hour")
	n.set("10.0.0.2", nil, nil)
	n.requireAnswer(t, "10.0.0.2", 10)
}

// A slow lookup does not hold up connections while there is an earlier answer. One lookup is made at a time.
func TestNamesWhileDNSIsSlow(t *testing.T) {
	n := newNameServer(t)
	hold := make(chan struct{})
	n.set("10.0.0.1", nil, hold)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			got, err := n.addresses(t.Context())
			assert.NoError(t, err)
			assert.True(t, slices.Equal([]netip.Addr{netip.MustParseAddr("10.0.0.1")}, got))
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := n.addresses(ctx)
	require.ErrorIs(t, err, context.Canceled, "a connection that is closed does not wait")
	close(hold)
	group.Wait()
	require.EqualValues(t, 1, n.lookups.Load())

	hold = make(chan struct{})
	n.set("10.0.0.2", nil, hold)
	n.pass(answerFresh)
	begun := time.Now()
	n.requireAnswer(t, "10.0.0.1", 2)
	require.GreaterOrEqual(t, time.Since(begun), lookupSlow)
	n.pass(lookupSlow)
	n.mu.Lock()
	n.hold = nil
	n.mu.Unlock()
	for range 100 { // which would take 20 s if each waited
		n.requireAnswer(t, "10.0.0.1", 2)
	}
	require.Less(t, time.Since(begun), 50*lookupSlow)
	close(hold)
	eventually(t, "the new answer", func() bool {
		got, err := n.addresses(t.Context())
		require.NoError(t, err)
		return got[0].String() == "10.0.0.2"
	})
	require.EqualValues(t, 2, n.lookups.Load())
}
