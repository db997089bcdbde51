// Package limit says how often something may be done, for one subject or for each of many.
package limit

import (
	"fmt"
	"maps"
	"time"
)

// Limit is how often something may be done: Burst times at once, and then once more
// every Interval. Zero: as often as one likes.
type Limit struct {
	Burst    int
	Interval time.Duration
}

// Take takes n tokens, at most Burst, of what is left of the limit. It returns when they
// are there, not before now, and when all of the limit is there again. full is that
// time before; it is all that has to be remembered.
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
	full    map[K]time.Time // when all of the limit is there again
	sweepAt int             // how many keys there are at the next sweep
}

// MinSweep is how many entries there are at least before those that say nothing are
// forgotten.
const MinSweep = 1024

// NewKeyed returns a Keyed of which nothing was used.
func NewKeyed[K comparable](l Limit) *Keyed[K] {
	return &Keyed[K]{limit: l, full: map[K]time.Time{}, sweepAt: MinSweep}
}

// At returns when n tokens of the key are there, not before now, and takes none.
func (k *Keyed[K]) At(key K, now time.Time, n int) time.Time {
	at, _ := k.limit.Take(k.full[key], now, n)
	return at
}

// Take takes n tokens of the key, and returns when they are there, not before now.
func (k *Keyed[K]) Take(key K, now time.Time, n int) (at time.Time) {
	at, k.full[key] = k.limit.Take(k.full[key], now, n)
	return at
}

// Sweep forgets the keys that have used nothing. It does so rarely enough that each is looked at
// a few times, and is to be called before each Take, whose time may be a later one.
func (k *Keyed[K]) Sweep(now time.Time) {
	if len(k.full) >= k.sweepAt {
		maps.DeleteFunc(k.full, func(_ K, at time.Time) bool { return !at.After(now) })
		k.sweepAt = max(MinSweep, 2*len(k.full))
	}
}

// Len is how many keys are kept.
func (k *Keyed[K]) Len() int { return len(k.full) }

// Latest returns the later time.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Jitter returns between half of d and d, by chance in [0,1).
func Jitter(d time.Duration, chance float64) time.Duration {
	return d/2 + time.Duration(chance*float64(d/2))
}

// Earliest returns the earlier time. Zero is a time before all others, so that what is bounded by
// one that was never set is not allowed at all.
func Earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// EarliestSet returns the earlier time of those that are not zero.
func EarliestSet(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
