package remote

import (
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// Bounds of the time without requests after a failure. It doubles with each further failure.
const (
	firstRest = time.Second
	lastRest  = time.Minute
)

// Breaker is a circuit breaker: after a failure of a server, it permits no request for some
// time, and then one. Otherwise every Secret that needs a certificate would cause a request.
// The zero value permits all requests.
type Breaker struct {
	mu       sync.Mutex
	failures int
	err      *Error // of the last failure
	failedAt time.Time
	until    time.Time // no request is permitted before
}

// Allow returns nil if a request is permitted, or the error of the last failure. It permits
// one request after that time, and the next one after the timeout of that request.
func (b *Breaker) Allow(now time.Time, timeout time.Duration) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures == 0 {
		return nil
	}
	if now.Before(b.until) {
		return b.err
	}
	b.until = now.Add(timeout)
	return nil
}

// Resting returns the error of the last failure while no request is permitted, or nil.
func (b *Breaker) Resting(now time.Time) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures > 0 && now.Before(b.until) {
		return b.err
	}
	return nil
}

// Failed records the failure of a request that was sent at asked. Requests that were in progress
// at the first failure count as one. chance in [0,1) is for jitter between the signers of
// many clusters that use the same server.
func (b *Breaker) Failed(asked, now time.Time, err *Error, chance float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures > 0 && !asked.After(b.failedAt) {
		return
	}
	b.failures++
	b.err, b.failedAt = err, now
	rest := lastRest
	if n := b.failures - 1; n < 16 {
		rest = min(lastRest, firstRest<<n)
	}
	b.until = now.Add(limit.Jitter(rest, chance))
}

// Answered records that the server works.
func (b *Breaker) Answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

// Abandoned records that the caller has canceled a request, whose result is unknown: the next
// request is permitted.
func (b *Breaker) Abandoned(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.until) {
		b.until = now
	}
}
