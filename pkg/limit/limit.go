// Package limit limits how often something may be done, for one subject or for each of many.
package limit

import (
	"fmt"
	"maps"
	"time"
)

// Limit is how often something may be done: Burst times at once, and then once every
// Interval. The zero Limit is unlimited.
type Limit struct {
	Burst    int
	Interval time.Duration
}

// Take takes n tokens, at most Burst. full is when all tokens were available again before,
// which is the only state. Take returns when the n tokens are available, at the earliest
// now, and the new value of full.
func (l Limit) Take(full, now time.Time, n int) (at, fullAgain time.Time) {
	if l.Burst == 0 {
		return now, full
	}
	n = min(n, l.Burst)
	at = Latest(now, full.Add(-time.Duration(l.Burst-n)*l.Interval))
	return at, Latest(full, at).Add(time.Duration(n) * l.Interval)
}

func (l Limit) String() string {
	return fmt.Sprintf("%d at once, then one every %s", l.Burst, l.Interval)
}

// Keyed is a Limit for each key. It is not safe for concurrent use.
type Keyed[K comparable] struct {
	limit   Limit
	full    map[K]time.Time // when all tokens are available again
	sweepAt int             // the number of keys at which to sweep next
}

// MinSweep is the smallest number of entries at which unused ones are removed.
const MinSweep = 1024

// NewKeyed returns a Keyed with all tokens available.
func NewKeyed[K comparable](l Limit) *Keyed[K] {
	return &Keyed[K]{limit: l, full: map[K]time.Time{}, sweepAt: MinSweep}
}

// At returns when n tokens of the key are available, at the earliest now. It takes none.
func (k *Keyed[K]) At(key K, now time.Time, n int) time.Time {
	at, _ := k.limit.Take(k.full[key], now, n)
	return at
}

// Take takes n tokens of the key, and returns when they are available, at the earliest now.
func (k *Keyed[K]) Take(key K, now time.Time, n int) (at time.Time) {
	at, k.full[key] = k.limit.Take(k.full[key], now, n)
	return at
}

// Allow takes a token of the key if one is available now, and reports whether it was. It sweeps.
func (k *Keyed[K]) Allow(key K, now time.Time) bool {
	if k.At(key, now, 1).After(now) {
		return false
	}
	k.Sweep(now)
	k.Take(key, now, 1)
	return true
}

// Sweep removes the keys whose tokens are all available at now. It must be called before each
// Take, whose time may be later, and only scans the keys when their number has doubled.
func (k *Keyed[K]) Sweep(now time.Time) {
	if len(k.full) >= k.sweepAt {
		maps.DeleteFunc(k.full, func(_ K, at time.Time) bool { return !at.After(now) })
		k.sweepAt = max(MinSweep, 2*len(k.full))
	}
}

// Len returns the number of keys.
func (k *Keyed[K]) Len() int { return len(k.full) }

// Latest returns the later time.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Jitter returns a duration between d/2 and d, for a chance in [0,1).
func Jitter(d time.Duration, chance float64) time.Duration {
	return d/2 + time.Duration(chance*float64(d/2))
}

// Earliest returns the earlier time. The zero time is before all others, so that a bound which
// was never set allows nothing.
func Earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// EarliestSet returns the earlier of the times that are not zero.
func EarliestSet(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
