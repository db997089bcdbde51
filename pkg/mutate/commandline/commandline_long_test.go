//go:build long

package commandline

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/test/bounded"
)

// TestArgumentsAreLookedAtOnce: a program of which each argument could be one that runs a
// shell takes time in proportion to its arguments. Compared are the processor times of one
// run; the factor is far from both 8 and 64.
func TestArgumentsAreLookedAtOnce(t *testing.T) {
	line := func(n int) Line {
		l := Line{Tokens: []string{"serve"}, Command: 1}
		for range n {
			l.Tokens = append(l.Tokens, "su")
		}
		return l
	}
	few, many := line(4_000), line(32_000)
	assert.False(t, few.IgnoresArguments())
	assert.Less(t, bounded.Growth(func() { few.IgnoresArguments() }, func() { many.IgnoresArguments() }), 24.0)
	assert.True(t, Line{Tokens: append(many.Tokens, "-c"), Command: 1}.IgnoresArguments())
}
