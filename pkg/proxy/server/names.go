package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// A Resolver returns the addresses of a host, whose name is absolute.
type Resolver func(ctx context.Context, host string) ([]netip.Addr, error)

// DNS is a Resolver with Go's resolver, which never calls libc. It does not read /etc/hosts if /etc/nsswitch.conf is as
// proxy.CheckNameService requires.
func DNS(ctx context.Context, host string) ([]netip.Addr, error) {
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", host)
}

const (
	// lookupTimeout is longer than two tries of a name server (man 5 resolv.conf).
	lookupTimeout = 12 * time.Second
	// answerFresh is how long an answer of DNS is used without another lookup.
	answerFresh = 5 * time.Second
	// answerUsable is how long an answer is used while DNS fails.
	answerUsable = time.Hour
	// lookupSlow is how long a connection waits for a lookup if there is an answer that can be used.
	lookupSlow = 200 * time.Millisecond
	// lookupPause is the pause after a failed lookup if there is an answer that can be used.
	lookupPause = time.Second
)

// names looks up the addresses of one host, one lookup at a time, and keeps the last good answer.
type names struct {
	host    string
	resolve Resolver
	own     []netip.Addr // addresses of the pod
	clock   func() time.Time
	ask     chan struct{} // requests a lookup

	mu     sync.Mutex
	good   []netip.Addr
	goodAt time.Time
	err    error // of the last lookup
	ended  time.Time
	begun  time.Time
	done   chan struct{} // closed when the lookup ends that was requested; nil if there is none
}

func newNames(host string, resolve Resolver, own []netip.Addr, clock func() time.Time) *names {
	return &names{host: host, resolve: resolve, own: own, clock: clock, ask: make(chan struct{}, 1)}
}

// run makes the lookups until ctx ends.
func (n *names) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ask:
		}
		limited, stop := context.WithTimeout(ctx, lookupTimeout)
		answer, err := n.resolve(limited, n.host)
		stop()
		if err == nil {
			answer, err = proxy.Reachable(answer, n.own)
		}
		n.mu.Lock()
		n.ended, n.err = n.clock(), err
		if err == nil {
			n.good, n.goodAt = answer, n.ended
		}
		close(n.done)
		n.done = nil
		n.mu.Unlock()
	}
}

// addresses returns the addresses of the host. While DNS fails or is slow, these are those of the last good answer.
func (n *names) addresses(ctx context.Context) ([]netip.Addr, error) {
	answer, done, wait := n.lookup()
	if done == nil {
		return answer, nil
	}
	var slow <-chan time.Time
	if answer != nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		slow = timer.C
	}
	select {
	case <-done:
	case <-slow:
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil || n.usable(n.clock()) {
		return n.good, nil
	}
	return nil, n.err
}

// lookup returns an answer that can be used, or nil, and a channel that is closed when a lookup has ended which might
// have a better one. If there is an answer, wait is how long to wait for that.
func (n *names) lookup() (answer []netip.Addr, done <-chan struct{}, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock()
	if n.usable(now) {
		answer = n.good
		if now.Sub(n.goodAt) < answerFresh || n.done == nil && n.err != nil && now.Sub(n.ended) < lookupPause {
			return answer, nil, 0
		}
	}
	if n.done == nil {
		n.done, n.begun = make(chan struct{}), now
		n.ask <- struct{}{} // run has taken the last one
	}
	return answer, n.done, max(0, lookupSlow-now.Sub(n.begun))
}

func (n *names) usable(now time.Time) bool { return n.good != nil && now.Sub(n.goodAt) < answerUsable }

// lookupError is the error of a lookup.
type lookupError struct{ error }

func (e lookupError) Unwrap() error { return e.error }

func isLookup(err error) bool {
	var lookup lookupError
	return errors.As(err, &lookup)
}
