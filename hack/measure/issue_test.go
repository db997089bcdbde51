package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPollAfter(t *testing.T) {
	for _, test := range []struct {
		name     string
		done, n  int
		since    time.Duration
		expected time.Duration
	}{
		{"nothing done yet", 0, 1000, time.Second, shortPoll},
		{"half done in ten seconds: ten more, so look after half of them", 500, 1000, 10 * time.Second, 5 * time.Second},
		{"hardly begun, which tells nothing of the end: look when twice the time has passed", 3, 10_000, 40 * time.Millisecond, 40 * time.Millisecond},
		{"close to the end", 999, 1000, time.Second, shortPoll},
		{"all done", 1000, 1000, time.Second, shortPoll},
	} {
		assert.Equal(t, test.expected, PollAfter(test.done, test.n, test.since), test.name)
	}
}
