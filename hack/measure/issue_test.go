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
		{"a tenth done in a second: nine more, so look after half of them", 100, 1000, time.Second, 4500 * time.Millisecond},
		{"close to the end", 999, 1000, time.Second, shortPoll},
		{"all done", 1000, 1000, time.Second, shortPoll},
	} {
		assert.Equal(t, test.expected, PollAfter(test.done, test.n, test.since), test.name)
	}
}
