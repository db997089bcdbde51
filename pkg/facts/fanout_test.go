package facts

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Tenants take turns, and work that is requested twice is done once, in its latest form.
func TestFanOutTakesTurns(t *testing.T) {
	f := NewFanOut("owned")
	var done []string
	does := func(what string) func() { return func() { done = append(done, what) } }
	for i := range 3 {
		f.Do("evil", fmt.Sprint(i), does(fmt.Sprint("evil ", i)))
	}
	f.Do("evil", "0", does("evil 0 again"))
	f.Do("shop", "0", does("shop"))
	for f.Next() {
	}
	assert.Equal(t, []string{"evil 0 again", "shop", "evil 1", "evil 2"}, done)
	assert.Empty(t, f.work)
}

func TestFanOutDoesWhatIsAskedForWhileItRuns(t *testing.T) {
	f := NewFanOut("owned")
	ctx, stop := context.WithCancel(t.Context())
	ended, did := make(chan struct{}), make(chan string)
	f.Do("shop", "a", func() {
		f.Do("shop", "b", func() { did <- "b" })
		did <- "a"
	})
	go func() { defer close(ended); f.Run(ctx) }()
	assert.Equal(t, "a", <-did)
	assert.Equal(t, "b", <-did)
	f.Do("shop", "c", func() { did <- "c" })
	assert.Equal(t, "c", <-did)
	stop()
	<-ended
}
