package remote

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/signer/issue"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestBreakerRests(t *testing.T) {
	var b Breaker
	now, timeout := epoch, 10*time.Second
	down := NewError(issue.ReasonUnreachable, "down")
	require.Nil(t, b.Allow(now, timeout))
	require.Nil(t, b.Resting(now))
	var rests []time.Duration
	for range 8 {
		b.Failed(now, now, down, 1)
		from := now
		for b.Allow(now, timeout) != nil {
			assert.Equal(t, down, b.Resting(now))
			now = now.Add(time.Second)
		}
		rests = append(rests, now.Sub(from))
		assert.Equal(t, down, b.Allow(now, timeout), "one may ask; the others wait for what it finds")
		assert.Nil(t, b.Allow(now.Add(timeout), timeout), "not longer than that may take")
		now = now.Add(timeout)
	}
	s := time.Second
	assert.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}, rests)

	b.Answered()
	require.Nil(t, b.Allow(now, timeout))
	b.Failed(now, now, down, 0)
	assert.Nil(t, b.Allow(now.Add(time.Second/2), timeout), "after an answer it starts again, and chance takes up to half away")
}

func TestBreakerCountsWhatFailedTogetherOnce(t *testing.T) {
	var b Breaker
	down := NewError(issue.ReasonUnreachable, "down")
	for range 8 {
		require.Nil(t, b.Allow(epoch, time.Second))
	}
	for i := range 8 {
		b.Failed(epoch, epoch.Add(time.Duration(i)*time.Millisecond), down, 1)
	}
	assert.NotNil(t, b.Allow(epoch.Add(900*time.Millisecond), time.Second))
	assert.Nil(t, b.Allow(epoch.Add(1010*time.Millisecond), time.Second), "eight requests are one failure")
}

func TestBreakerPermitsTheNextAfterAnAbandonedRequest(t *testing.T) {
	var b Breaker
	b.Abandoned(epoch)
	require.Nil(t, b.Allow(epoch, time.Second), "and nothing else comes of that")
	b.Failed(epoch, epoch, NewError(issue.ReasonUnreachable, "down"), 1)
	due := epoch.Add(time.Second)
	require.Nil(t, b.Allow(due, time.Minute))
	require.NotNil(t, b.Allow(due, time.Minute))
	b.Abandoned(due)
	assert.Nil(t, b.Allow(due, time.Minute))
}

// For any number and time of requests, a server that is down gets no more than one after each rest,
// and the next one at most a minute after its last failure.
func TestBreakerBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Breaker
		now, last, asked := epoch, time.Time{}, 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "after")))
			if b.Allow(now, time.Second) != nil {
				require.Less(t, now.Sub(last), lastRest)
				continue
			}
			if asked > 0 {
				require.GreaterOrEqual(t, now.Sub(last), firstRest/2)
			}
			if asked > 7 {
				require.GreaterOrEqual(t, now.Sub(last), lastRest/2)
			}
			b.Failed(now, now, NewError(issue.ReasonUnreachable, "down"), rapid.Float64Range(0, 0.999).Draw(t, "chance"))
			last = now
			asked++
		}
	})
}
