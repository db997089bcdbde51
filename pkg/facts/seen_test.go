package facts_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/facts"
)

// awaited returns the duration of Await for a cache that sees one of the versions each second, the first at once.
func awaited(t *testing.T, await string, seen ...string) (after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var s facts.Seen
		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, version := range seen {
				s.Set(version)
				time.Sleep(time.Second)
			}
		}()
		synctest.Wait()
		s.Await(t.Context(), await)
		after = time.Since(began)
		<-ended
	})
	return after
}

func TestAWriteIsAwaited(t *testing.T) {
	for name, tt := range map[string]struct {
		seen []string
		want time.Duration
	}{
		"seen before the response":   {[]string{"10"}, 0},
		"versions are numbers":       {[]string{"9", "10"}, time.Second},
		"a later version is enough":  {[]string{"8", "9", "11", "12"}, 2 * time.Second},
		"the wait is bounded":        {[]string{"9"}, 10 * time.Second},
		"other versions are ignored": {[]string{"a", "10"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, awaited(t, "10", tt.seen...)) })
	}
	assert.Zero(t, awaited(t, ""), "nothing was written")
}

func TestAProcessThatEndsAwaitsNothing(t *testing.T) {
	var s facts.Seen
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Await(ctx, "10")
}
