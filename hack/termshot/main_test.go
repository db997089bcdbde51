package main

import (
	"encoding/xml"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDraw(t *testing.T) {
	svg := draw("x -A", "READY\r\n\x1b[32mTrue\x1b[0m <&>\r\n")
	require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{})))
	assert.Contains(t, svg, ">$ x -A</tspan>")
	assert.Contains(t, svg, `<tspan fill="#89d185" textLength="31.3">True</tspan><tspan fill="#dddddd" textLength="31.3"> &lt;&amp;&gt;</tspan>`)
	assert.NotContains(t, svg, "\x1b")
}

func TestWrap(t *testing.T) {
	const text = "\x1b[31mabcd\x1b[0mé\r\nabc\r\n"
	assert.Equal(t, text, wrap(text, 0))
	assert.Equal(t, text, wrap(text, 5), "colours take no room")
	assert.Equal(t, "\x1b[31mabc\nd\x1b[0mé\r\nabc\r\n", wrap(text, 3))
}
