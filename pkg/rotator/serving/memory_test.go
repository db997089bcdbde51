package serving

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/internal/fixture"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

func TestMemory(t *testing.T) {
	one := []probe.Answer{showed(fixture.Leaf(1), 0)}
	m := Memory{pods: map[types.UID]remembered{"a": {seen: fixture.Noon}, "b": {seen: fixture.Noon}}}
	copied := m.Clone()
	m.Record("a", one)
	m.Record("replaced", one)
	assert.Empty(t, copied.pods["a"].answers, "a copy")
	assert.Len(t, m.pods, 2)

	delete(copied.pods, "b")
	copied.TakeAnswers(m)
	assert.Len(t, copied.pods, 1)
	assert.Equal(t, one, copied.pods["a"].answers, "what came in meanwhile is kept")
	assert.Equal(t, fixture.Noon, NewMemory(fixture.Noon).begun)
	NewMemory(fixture.Noon.Add(time.Hour)).Record("a", one)
}
