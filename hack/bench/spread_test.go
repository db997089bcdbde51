package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSpread(t *testing.T) {
	assert.Equal(t, "2.0", spread{2}.format("%.1f"))
	assert.Equal(t, "2.0 (1.0 – 9.0)", spread{9, 1, 2}.format("%.1f"))
	assert.Equal(t, "2.5 (1.0 – 9.0)", spread{9, 1, 2, 3}.format("%.1f"))
	s := spread{9, 1, 2}
	s.median()
	assert.Equal(t, spread{9, 1, 2}, s, "the rounds keep their order")
}

func TestPollAfter(t *testing.T) {
	for _, test := range []struct {
		name     string
		done, n  int
		since    time.Duration
		expected time.Duration
	}{
		{"nothing done yet", 0, 1000, time.Second, shortPoll},
		{"a tenth done in a second: nine more, so look after half of them", 100, 1000, time.Second, 4500 * time.Millisecond},
		{"close to the end", 999, 1000, time.Second, shortPoll},
		{"all done", 1000, 1000, time.Second, shortPoll},
	} {
		assert.Equal(t, test.expected, pollAfter(test.done, test.n, test.since), test.name)
	}
}
