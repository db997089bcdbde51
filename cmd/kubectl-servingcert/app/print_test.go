package app

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a table says does not depend on whether it is painted, and what is in a cell
// cannot paint.
func TestPaintedTablesSayTheSame(t *testing.T) {
	rows := [][]cell{{{"NAME", plain}, {"READY", plain}, {"WHY", plain}}, {{"wéb", plain}, {"True", good}, {"-", plain}}, {{"a\x1b[31mb\n", plain}, {"", bad}, {"last", doubt}}}
	var uncoloured, coloured strings.Builder
	require.NoError(t, new(table).write(screen{to: &uncoloured}, rows...))
	require.NoError(t, new(table).write(screen{to: &coloured, colours: true}, rows...))
	assert.Equal(t, "NAME            READY  WHY\nwéb             True   -\n"+`a\u001b[31mb\n         last`+"\n", uncoloured.String())
	assert.Contains(t, coloured.String(), "\x1b[32mTrue\x1b[0m   -\n")
	assert.NotContains(t, coloured.String(), "a\x1b")
	assert.Equal(t, uncoloured.String(), regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured.String(), ""))
}

// Rows that come later are in the columns of those before.
func TestATableGoesOn(t *testing.T) {
	var out strings.Builder
	var columns table
	require.NoError(t, columns.write(screen{to: &out}, cells("long name", "x")))
	require.NoError(t, columns.write(screen{to: &out}, cells("a", "y")))
	assert.Equal(t, "long name  x\na          y\n", out.String())
}

func TestAFileIsNoTerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	s := screenOf(file, func(string) string { return "xterm" })
	assert.False(t, s.colours || s.glyphs || s.columns > 0)
	assert.Nil(t, streams{screen: s}.bar())
}
