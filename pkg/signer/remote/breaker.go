package remote

import (
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// How long a server (or an API) that does not work is left alone: longer after each attempt
// that fails.
const (
	firstRest = time.Second
	lastRest  = time.Minute
)

// Breaker keeps a server that does not work from being asked by every Secret
// that needs a certificate: after a failure nobody asks until its rest is over,
// and then one does. The zero value lets everybody through.
type Breaker struct {
	mu       sync.Mutex
	failures int
	err      *Error // of the last failure
	failedAt time.Time
	until    time.Time // the end of the rest
}

// Allow returns nil if the server may be asked, or the error of the one who
// asked last. Of those who come when a rest is over the first may ask, and the
// rest goes on for the others for as long as its answer may take.
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

// Resting returns the error of the last failure while nobody may ask.
func (b *Breaker) Resting(now time.Time) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures > 0 && now.Before(b.until) {
		return b.err
	}
	return nil
}

// Failed reports a request that was sent at asked. Those that were under way
// when the first of them failed are one failure. chance in [0,1) spreads the
// signers of many clusters that have lost the same server.
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

// Answered reports that the server works.
func (b *Breaker) Answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

// Abandoned reports a request whose caller gave up, which says nothing about the
// server: the next may ask.
func (b *Breaker) Abandoned(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.until) {
		b.until = now
	}
}
