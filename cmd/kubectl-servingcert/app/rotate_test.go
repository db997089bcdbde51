package app

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A certificate issued in the second of the request is older than the request.
func TestRenewAfterIsAWholeSecondLater(t *testing.T) {
	second := time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC)
	for _, now := range []time.Time{second, second.Add(time.Nanosecond), second.Add(time.Second - 1)} {
		assert.Equal(t, second.Add(time.Second), renewAfter(now))
	}
}

func TestConfirmationIsYesOnATerminal(t *testing.T) {
	for answer, yes := range map[string]bool{"yes\n": true, "yes\r\n": true, "yes": true, "y\n": false, "no\n": false, "\n": false, "": false, "YES\n": false} {
		var out strings.Builder
		err := askConfirmation(streams{in: strings.NewReader(answer), out: &out, terminal: true})
		assert.Equal(t, yes, err == nil, "%q", answer)
		assert.Equal(t, "Type yes to continue: ", out.String())
	}
	err := askConfirmation(streams{in: strings.NewReader("yes\n"), out: io.Discard})
	assert.ErrorContains(t, err, "standard input is not a terminal; use --yes to skip the question")
}
