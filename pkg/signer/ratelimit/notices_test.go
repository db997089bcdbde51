package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/limit"
)

// The number of events is bounded for a namespace and for all, however many Services there are.
func TestNoticesAreBounded(t *testing.T) {
	n := NewNoticeLimiter()
	take := func(namespace string, times int, now time.Time) (taken int) {
		for range times {
			if n.Take(namespace, now) {
				taken++
			}
		}
		return taken
	}
	assert.Equal(t, 10, take("tenant", 10_000, epoch))
	assert.Equal(t, 1, take("shop", 1, epoch), "a tenant does not use up what others have")
	assert.Equal(t, 5, take("tenant", 10_000, epoch.Add(5*time.Minute)))
	each := func(namespaces int, now time.Time) (taken int) {
		for i := range namespaces {
			taken += take(fmt.Sprint("n", i), 1, now)
		}
		return taken
	}
	now := epoch.Add(time.Hour)
	assert.Equal(t, 100, each(10_000, now))
	assert.Equal(t, 60, each(10_000, now.Add(time.Minute)))
	for i := range 20_000 {
		n.Take(fmt.Sprint("m", i), now.Add(time.Duration(i)*time.Minute))
	}
	assert.LessOrEqual(t, n.namespaces.Len(), 2*limit.MinSweep)
}
