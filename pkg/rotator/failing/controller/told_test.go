package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestATenantHasSoManyFindingsTold(t *testing.T) {
	limits, now := newTold(), rotatortest.Noon
	count := func(namespace string, now time.Time) (n int) {
		for range 1000 {
			if limits.take(namespace, now) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, toldOfNamespace.Burst, count("evil", now))
	assert.Equal(t, toldOfNamespace.Burst, count("shop", now), "what another tells is its own")
	assert.Equal(t, 6, count("evil", now.Add(time.Minute)))
	for i := range 2 * limit.MinSweep {
		limits.take(fmt.Sprint("n", i), now.Add(time.Duration(i)*time.Hour))
	}
	assert.LessOrEqual(t, limits.namespaces.Len(), limit.MinSweep)
}
