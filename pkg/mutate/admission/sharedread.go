package admission

import (
	"context"
	"sync"
	"time"
)

// sharedRead lets the requests that wait for a read of the same key share one,
// but never one that started before they arrived: what such a read returns may
// be older than what the request's sender had already seen done. At most one
// read of a key runs at a time, and at most one more waits for its turn.
type sharedRead[V any] struct {
	read    func(ctx context.Context, key string) (V, error)
	timeout time.Duration // of one read, which outlives the request that asked first

	mu     sync.Mutex
	queues map[string]*queue[V] // of the keys for which a read runs
}

type queue[V any] struct {
	next *round[V] // waits until the running one is done; nil if no one has arrived since it started
}

// round is one read and its result, which is set before done is closed.
type round[V any] struct {
	done  chan struct{}
	value V
	err   error
}

func newSharedRead[V any](timeout time.Duration, read func(context.Context, string) (V, error)) *sharedRead[V] {
	return &sharedRead[V]{read: read, timeout: timeout, queues: map[string]*queue[V]{}}
}

// get returns the result of a read that starts after the call, or the error of
// ctx if that ends first.
func (s *sharedRead[V]) get(ctx context.Context, key string) (V, error) {
	r := s.join(key)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func (s *sharedRead[V]) join(key string) *round[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, running := s.queues[key]
	if !running {
		s.queues[key] = &queue[V]{}
		r := &round[V]{done: make(chan struct{})}
		go s.run(key, r)
		return r
	}
	if q.next == nil {
		q.next = &round[V]{done: make(chan struct{})}
	}
	return q.next
}

// run reads for one round after the other until no one waits.
func (s *sharedRead[V]) run(key string, r *round[V]) {
	for r != nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		r.value, r.err = s.read(ctx, key)
		cancel()
		close(r.done)
		r = s.nextRound(key)
	}
}

// nextRound takes what waits for its turn. Whoever arrives from now on joins the
// one after it, which is what keeps "started after they arrived" true.
func (s *sharedRead[V]) nextRound(key string) *round[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	r := q.next
	q.next = nil
	if r == nil {
		delete(s.queues, key)
	}
	return r
}
