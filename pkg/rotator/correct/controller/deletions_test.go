package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bucket is a rate limiter that is filled by hand.
type bucket struct{ tokens int }

func (b *bucket) TryAccept() bool {
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

func (*bucket) Accept()      {}
func (*bucket) Stop()        {}
func (*bucket) QPS() float32 { return 5 }

func (*bucket) Wait(context.Context) error { return nil }

// Namespaces whose pods are due for ever, and that ask as often as they can, delay one
// with a single pod by one pod each.
func TestDeletionsOfManyPodsDelayOthersByOneEach(t *testing.T) {
	b := &bucket{}
	d := &deletions{rate: 5, limiter: b}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const hostile = 20
	ask := func() (taken int) {
		for n := range hostile {
			for d.take(fmt.Sprint("hostile", n), now) == 0 {
				taken++
			}
		}
		return taken
	}
	b.tokens = 5
	assert.Equal(t, 5, ask(), "what nobody else wants")
	wait := d.take("shop", now)
	assert.Equal(t, soon, wait, "many are ahead")
	for second := range hostile + 1 {
		now = now.Add(time.Second)
		b.tokens = 1
		ask()
		if d.take("shop", now) == 0 {
			return
		}
		require.Less(t, second, hostile, "it is not its turn after one pod of each")
	}
}

// A namespace alone is deleted from as fast as the rate allows, and one that wants no
// more is not waited for.
func TestDeletionsOfOneNamespace(t *testing.T) {
	b := &bucket{tokens: 3}
	d := &deletions{rate: 5, limiter: b}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range 3 {
		assert.Zero(t, d.take("shop", now))
	}
	assert.Equal(t, time.Second/5, d.take("shop", now))
	b.tokens = 1
	assert.Equal(t, 2*time.Second/5, d.take("other", now), "shop came before")
	d.leave("shop")
	assert.Zero(t, d.take("other", now))

	assert.Equal(t, time.Second/5, d.take("shop", now))
	b.tokens = 1
	assert.Zero(t, d.take("other", now.Add(lapse+time.Second)), "shop has not asked for long")
}
