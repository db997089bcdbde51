package serving

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestKeyState(t *testing.T) {
	one := []probe.Answer{showed(rotatortest.Leaf(1), 0)}
	m := KeyState{pods: map[types.UID]*podState{"a": {seen: rotatortest.Noon, most: 1}, "b": {seen: rotatortest.Noon}}}
	copied := m.Clone()
	m.Record("a", one)
	m.Record("replaced", one)
	assert.True(t, m.Woken("a", rotatortest.Noon))
	assert.False(t, m.Woken("replaced", rotatortest.Noon))
	assert.Empty(t, copied.pods["a"].answers, "a copy")
	assert.Len(t, m.pods, 2)

	between := m.Clone()
	m.Record("a", []probe.Answer{showed(rotatortest.Leaf(2), time.Second)})
	m.Woken("a", rotatortest.Noon.Add(time.Hour))
	assert.Equal(t, one, between.pods["a"].answers, "a copy keeps what it had")
	assert.Equal(t, rotatortest.Noon, between.pods["a"].woken)
	m = between

	delete(copied.pods, "b")
	copied.TakeAnswers(m)
	assert.Len(t, copied.pods, 1)
	assert.Equal(t, one, copied.pods["a"].answers, "later answers are kept")
	assert.Equal(t, rotatortest.Noon, copied.pods["a"].woken)
	assert.Equal(t, rotatortest.Noon, NewKeyState(rotatortest.Noon).begun)
	NewKeyState(rotatortest.Noon.Add(time.Hour)).Record("a", one)
}
