package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

// A waiting request is decided five times at once, and then every ten seconds, however often
// objects change.
func TestDecisionsAboutARequestAreLimited(t *testing.T) {
	start := time.Unix(1e9, 0)
	l := NewLooks()
	looks := 0
	for now := start; now.Before(start.Add(time.Minute)); now = now.Add(100 * time.Millisecond) { // it changes all the time
		if !l.At("shop", "a", now).After(now) {
			l.Waits("shop", "a", 9, now)
			looks++
		}
	}
	assert.Equal(t, 1+looksOfOne.Burst+5, looks)
	assert.Equal(t, start.Add(time.Minute), l.At("shop", "b", start.Add(time.Minute)), "another one")
	l.Forget("a")
	assert.Equal(t, start, l.At("shop", "a", start))
}

// The waiting requests of a tenant together cost a bounded number of calls, and do not delay other
// tenants.
func TestCallsOfATenantAreLimited(t *testing.T) {
	start := time.Unix(1e9, 0)
	l := NewLooks()
	ids := make([]types.UID, 5000)
	for i := range ids {
		ids[i] = types.UID(rune(i + 1))
		l.Waits("shop", ids[i], 9, start) // the first decision is free
	}
	calls := 0
	for s := range 60 {
		now := start.Add(time.Duration(s) * time.Second)
		for _, id := range ids {
			if !l.At("shop", id, now).After(now) {
				l.Waits("shop", id, 9, now)
				calls += 9
			}
		}
	}
	most := callsOfTenant.Burst + int(time.Minute/callsOfTenant.Interval) + 9
	assert.LessOrEqual(t, calls, most)
	assert.Greater(t, calls, most*8/10)
	now := start.Add(time.Minute)
	assert.Equal(t, now, l.At("bank", "x", now))
	l.Waits("bank", "x", 9, now)
	assert.Equal(t, now, l.At("bank", "x", now))
}
