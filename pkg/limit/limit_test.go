package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// A Limit allows exactly as much as it describes in any period.
func TestLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Burst: rapid.IntRange(1, 5).Draw(t, "burst"), Interval: time.Second}
		var full time.Time
		var times []time.Time // of each token
		now := epoch
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
			n := rapid.IntRange(1, 6).Draw(t, "tokens")
			var at time.Time
			before := full
			at, full = l.Take(full, now, n)
			assert.False(t, at.Before(now))
			if at.After(now) {
				early, _ := l.Take(before, at.Add(-time.Millisecond), n)
				assert.Equal(t, at, early, "no later than it must be")
			}
			for range min(n, l.Burst) {
				times = append(times, at)
			}
		}
		for i := range times {
			for j := i; j < len(times); j++ {
				most := l.Burst + int(times[j].Sub(times[i])/l.Interval)
				assert.LessOrEqual(t, j-i+1, most, "within %s", times[j].Sub(times[i]))
			}
		}
	})
}

func TestNoLimit(t *testing.T) {
	var full time.Time
	for range 1000 {
		var at time.Time
		at, full = Limit{}.Take(full, epoch, 15)
		assert.Equal(t, epoch, at)
	}
}

// TestKeyed: each key has its own limit, and unused keys are removed.
func TestKeyed(t *testing.T) {
	k := NewKeyed[int](Limit{Burst: 2, Interval: time.Second})
	second := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }
	for i, want := range []int{0, 0, 1, 2} {
		assert.Equal(t, second(want), k.At(1, epoch, 1), i)
		assert.Equal(t, second(want), k.Take(1, epoch, 1), i)
	}
	assert.Equal(t, epoch, k.At(2, epoch, 1))
	assert.Equal(t, 1, k.Len(), "who is only asked about is not kept")
	for key := range MinSweep {
		k.Take(key, epoch, 1)
	}
	k.Sweep(second(1))
	assert.Equal(t, 1, k.Len(), "the one that has taken most")
	assert.Equal(t, second(4), k.At(1, second(1), 1))
}

// TestAllow: a token is taken only if it is available, and the keys stay bounded.
func TestAllow(t *testing.T) {
	k := NewKeyed[int](Limit{Burst: 2, Interval: time.Second})
	allowed := func(key int, now time.Time) (n int) {
		for range 100 {
			if k.Allow(key, now) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 2, allowed(1, epoch))
	assert.Equal(t, 2, allowed(2, epoch), "each key has its own")
	assert.Equal(t, 1, allowed(1, epoch.Add(time.Second)), "what was refused has cost nothing")
	for key := range 2 * MinSweep {
		k.Allow(key, epoch.Add(time.Duration(key)*time.Hour))
	}
	assert.LessOrEqual(t, k.Len(), MinSweep)
}

func TestJitter(t *testing.T) {
	assert.Equal(t, 5*time.Second, Jitter(10*time.Second, 0))
	assert.Equal(t, 7500*time.Millisecond, Jitter(10*time.Second, 0.5))
}

func TestEarliest(t *testing.T) {
	soon, none := time.Unix(1, 0), time.Time{}
	late := soon.Add(time.Hour)
	for _, pair := range [][2]time.Time{{soon, late}, {late, soon}} {
		assert.Equal(t, soon, Earliest(pair[0], pair[1]))
		assert.Equal(t, soon, EarliestSet(pair[0], pair[1]))
	}
	for _, pair := range [][2]time.Time{{soon, none}, {none, soon}} {
		assert.Zero(t, Earliest(pair[0], pair[1]))
		assert.Equal(t, soon, EarliestSet(pair[0], pair[1]))
	}
	assert.Zero(t, EarliestSet(none, none))
}
