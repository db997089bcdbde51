package facts_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/facts"
)

func TestSaid(t *testing.T) {
	said := facts.NewSaid()
	assert.True(t, said.First("a", "x"))
	assert.False(t, said.First("a", "x"))
	assert.True(t, said.First("b", "x"), "another object")
	assert.True(t, said.First("a", "y"), "something else")
	assert.True(t, said.First("a", "x"), "it was not the last")
	said.Forget("a")
	assert.True(t, said.First("a", "x"))
}
