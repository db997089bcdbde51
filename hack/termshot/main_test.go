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
