package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEscape(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":                {`Secret "web-tls": ok (é, 日本, 🔒)`, `Secret "web-tls": ok (é, 日本, 🔒)`},
		"a line of its own":    {"x\nCA  generation 9 signs", `x\nCA  generation 9 signs`},
		"columns":              {"x\tTrue", `x\tTrue`},
		"overwrites the line":  {"bad\rgood", `bad\rgood`},
		"ANSI colours":         {"\x1b[32mTrue\x1b[0m", `\u001b[32mTrue\u001b[0m`},
		"ANSI of one byte":     {"\u009b2J", `\u009b2J`},
		"title of the window":  {"\x1b]0;x\x07", `\u001b]0;x\u0007`},
		"backspace and delete": {"a\b\x7f", `a\u0008\u007f`},
		"right to left":        {"\u202egnitset\u202c", `\u202egnitset\u202c`},
		"isolates":             {"\u2066x\u2069", `\u2066x\u2069`},
		"marks":                {"a\u200e\u200f\u061c", `a\u200e\u200f\u061c`},
		"no width":             {"a\u200b\u2060\ufeff", `a\u200b\u2060\ufeff`},
		"line separators":      {"a\u2028b\u2029c\u0085", `a\u2028b\u2029c\u0085`},
		"tags":                 {"a\U000e0041", `a\udb40\udc41`},
		"no UTF-8":             {"a\xff\xfe", `a\ufffd\ufffd`},
	} {
		assert.Equal(t, c.want, Escape(c.text), name)
		assert.Equal(t, c.want, Escape(c.want), "%s: twice is once", name)
	}
	assert.Equal(t, "a\n\tb\\u001b\n", EscapeLines("a\n\tb\x1b\n"))
}
