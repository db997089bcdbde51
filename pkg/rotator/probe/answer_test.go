package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/test/rotatortest"
)

// showed is an answer with a leaf at a time after noon.
func showed(leaf string, after time.Duration) Answer {
	return Answer{Port: 8443, Kind: TLS, At: rotatortest.Noon.Add(after), Since: rotatortest.Noon.Add(after), Leaf: leaf}
}

func noAnswerFor(lasted, after time.Duration) Answer {
	return Answer{Port: 8443, Kind: NoAnswer, At: rotatortest.Noon.Add(after), Since: rotatortest.Noon.Add(after - lasted)}
}

func TestAnswersAreMerged(t *testing.T) {
	port := func(n uint16, a Answer) Answer {
		a.Port = n
		return a
	}
	first := Merge(nil, []Answer{port(2, showed(rotatortest.Leaf(1), 0)), port(1, noAnswerFor(time.Hour, 0))})
	assert.Equal(t, []Answer{port(1, noAnswerFor(0, 0)), port(2, showed(rotatortest.Leaf(1), 0))}, first, "a row begins with its first answer")
	again := Merge(first, []Answer{port(1, noAnswerFor(0, time.Minute)), port(2, showed(rotatortest.Leaf(2), time.Minute)), port(3, showed(rotatortest.Leaf(2), time.Minute))})
	assert.Equal(t, []Answer{port(1, noAnswerFor(time.Minute, time.Minute)), port(2, showed(rotatortest.Leaf(2), time.Minute)), port(3, showed(rotatortest.Leaf(2), time.Minute))}, again)
	assert.Len(t, first, 2, "what was is not changed")
}
