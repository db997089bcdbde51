package heartbeat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

var bomb = types.NamespacedName{Namespace: "evil", Name: "bomb"}

// Work that ends is never stuck, regardless of its amount.
func TestOnlyWorkThatDoesNotEndIsStuck(t *testing.T) {
	const patience = time.Minute
	var going Going
	now := time.Unix(1e9, 0)
	var seen Seen
	look := func() []Work {
		all := going.Now()
		seen = seen.Look(all, now)
		return seen.Stuck(all, now, patience)
	}
	end := going.Begin(`controller "signer"`, bomb)
	assert.Empty(t, look())
	for range 10 { // the same object again and again, by another worker
		again := going.Begin(`controller "signer"`, bomb)
		now = now.Add(patience / 10)
		if stuck := look(); now.Before(time.Unix(1e9, 0).Add(patience)) {
			assert.Empty(t, stuck)
		} else {
			require.Len(t, stuck, 1)
			assert.Equal(t, bomb, stuck[0].Object)
		}
		again()
	}
	require.Len(t, look(), 1)
	end()
	assert.Empty(t, look())
	assert.Empty(t, seen, "ended work is forgotten")
	assert.Empty(t, going.Now())
}

// Work that was not observed before is not stuck yet.
func TestPatienceBeginsWithTheFirstLook(t *testing.T) {
	var going Going
	going.Begin("x", bomb)
	assert.Empty(t, Seen{}.Stuck(going.Now(), time.Unix(1e9, 0), 0))
}

func TestDescribe(t *testing.T) {
	require.NoError(t, Describe(nil, time.Minute))
	one := Work{Worker: `controller "signer"`, Object: bomb}
	require.EqualError(t, Describe([]Work{one}, time.Minute), `controller "signer" has been busy with one object for more than 1m0s: the log names it`)
	err := Describe([]Work{one, {Worker: "watch"}}, time.Minute)
	require.ErrorContains(t, err, ", and 1 more")
	assert.NotContains(t, err.Error(), "bomb")
}
