package fairqueue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestLine(t *testing.T) {
	var l Line
	ahead := func(namespace string, after time.Duration) int {
		return l.Ahead(namespace, noon.Add(after), time.Minute)
	}
	assert.Zero(t, ahead("a", 0), "the line is empty")
	l.Ask("a", noon)
	l.Ask("b", noon.Add(time.Second))
	l.Ask("a", noon.Add(2*time.Second))
	assert.Equal(t, []int{0, 1, 2}, []int{ahead("a", 0), ahead("b", 0), ahead("c", 0)}, "asking again changes nothing")
	l.Leave("a")
	l.Ask("a", noon.Add(3*time.Second))
	assert.Equal(t, []int{1, 0}, []int{ahead("a", 0), ahead("b", 0)}, "a new request is last")
	assert.Equal(t, 1, ahead("a", time.Minute+time.Second))
	assert.Zero(t, ahead("a", time.Minute+2*time.Second), "b has not asked for longer than a minute")
	l.Ask("b", noon.Add(2*time.Minute))
	assert.Equal(t, 1, l.Ahead("b", noon.Add(time.Minute), time.Minute), "a new request after a lapse is last")
}

// A namespace is served after at most the number of others that waited at its first request, however often
// these return.
func TestEverybodyIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Line
		waiting := map[string]int{} // namespaces that may be served before
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			now := noon.Add(time.Duration(step) * time.Millisecond)
			name := fmt.Sprint("ns", rapid.IntRange(0, 9).Draw(t, "namespace"))
			if l.Ahead(name, now, time.Minute) > 0 {
				if _, waits := waiting[name]; !waits {
					waiting[name] = len(waiting)
				}
				l.Ask(name, now)
				continue
			}
			l.Leave(name) // it is served
			delete(waiting, name)
			for other := range waiting {
				waiting[other]--
				require.GreaterOrEqual(t, waiting[other], 0, "%s was overtaken", other)
			}
			if rapid.Bool().Draw(t, "wants more") {
				waiting[name] = len(waiting)
				l.Ask(name, now)
			}
		}
	})
}
