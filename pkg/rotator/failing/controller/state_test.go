package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestReportsAreBounded(t *testing.T) {
	s, now := newState(), rotatortest.Noon
	count := func(namespace string, now time.Time) (n int) {
		for range 1000 {
			if s.mayReport(namespace, now) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, eventsPerNamespace.Burst, count("evil", now))
	assert.Equal(t, eventsPerNamespace.Burst, count("shop", now), "the limit is per namespace")
	assert.Equal(t, 6, count("evil", now.Add(time.Minute)))
	for i := range 2 * limit.MinSweep {
		s.mayReport(fmt.Sprint("n", i), now.Add(time.Duration(i)*time.Hour))
	}
	assert.LessOrEqual(t, s.events.Len(), limit.MinSweep)
}
