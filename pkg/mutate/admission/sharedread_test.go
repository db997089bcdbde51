package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSharedReadNeverReturnsAnOlderState: a world changes all the time, and
// whoever asks must be told a state at least as new as the one at its asking.
func TestSharedReadNeverReturnsAnOlderState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var world, reads, running atomic.Int64
		s := newSharedRead(time.Minute, func(context.Context, string) (int64, error) {
			reads.Add(1)
			assert.EqualValues(t, 1, running.Add(1), "one read at a time")
			defer running.Add(-1)
			state := world.Load() // read at the beginning, so that a late joiner would see the past
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			return state, nil
		})
		var wg sync.WaitGroup
		const askers = 500
		for range askers {
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			asked := world.Add(1)
			wg.Go(func() {
				got, err := s.get(t.Context(), "ns")
				assert.NoError(t, err)
				assert.GreaterOrEqual(t, got, asked)
			})
		}
		wg.Wait()
		assert.Less(t, reads.Load(), int64(askers/5), "reads are shared")
		synctest.Wait()
		assert.Empty(t, s.queues, "nothing is kept for a key that no one asks for")
	})
}

func TestSharedReadSharesOnlyWhatStartsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var starts []time.Duration
		s := newSharedRead(time.Minute, func(context.Context, string) (int, error) {
			starts = append(starts, time.Since(start))
			time.Sleep(10 * time.Millisecond)
			return len(starts), nil
		})
		results := make([]int, 4)
		var wg sync.WaitGroup
		for i := range results { // at 0, 1, 2 and 3 ms
			wg.Go(func() { results[i], _ = s.get(t.Context(), "ns") })
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		assert.Equal(t, []int{1, 2, 2, 2}, results, "three arrived while the first read ran and share the second")
		assert.Equal(t, []time.Duration{0, 10 * time.Millisecond}, starts)
	})
}

func TestSharedReadKeysAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharedRead(time.Minute, func(_ context.Context, key string) (string, error) {
			time.Sleep(time.Second)
			return key, nil
		})
		start := time.Now()
		var wg sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			wg.Go(func() {
				got, err := s.get(t.Context(), key)
				assert.NoError(t, err)
				assert.Equal(t, key, got)
			})
		}
		wg.Wait()
		assert.Equal(t, time.Second, time.Since(start), "side by side")
	})
}

func TestSharedReadFailsForAllWhoShareIt(t *testing.T) {
	s := newSharedRead(time.Minute, func(context.Context, string) (int, error) { return 0, errors.New("down") })
	for range 3 {
		_, err := s.get(t.Context(), "ns")
		require.EqualError(t, err, "down")
	}
}

func TestSharedReadLetsAnImpatientOneGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharedRead(5*time.Second, func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done() // the read has a limit of its own
			return 0, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := s.get(ctx, "ns")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		_, err = s.get(t.Context(), "ns")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Second, time.Since(start), "it waited for the first read to end and for its own")
	})
}
