package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadCollections(t *testing.T) {
	log := `time=2026-11-22T14:10:02.118Z level=INFO msg="certificate issued"
gc 1 @0.012s 2%: 0.018+1.0+0.002 ms clock, 0.036+0.5/0.25/0+0.004 ms cpu, 3->4->2 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P
gc 2 @1.306s 2%: 0.024+3.1+0.012 ms clock, 0.01+1/2/3+0.99 ms cpu, 9->10->5 MB, 11 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)
gc is a word that a log may begin with
`
	c, err := readCollections(strings.NewReader(log))
	require.NoError(t, err)
	assert.Equal(t, collections{n: 2, cpu: 7790 * time.Microsecond, live: 5 << 20}, c)

	c, err = readCollections(strings.NewReader("nothing\n"))
	require.NoError(t, err)
	assert.Zero(t, c)
}

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
