package progress

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLine(t *testing.T) {
	for want, got := range map[string]string{
		"": line(3, 0, "certificates", 80),
		"[........................] 0/4 certificates":  line(0, 4, "certificates", 80),
		"[############............] 2/4 certificates":  line(2, 4, "certificates", 80),
		"[########################] 4/4 certificates":  line(9, 4, "certificates", 80),
		`[........................] 0/4 a\u001b[2J\nb`: line(-1, 4, "a\x1b[2J\nb", 80),
		"[######": line(1, 4, "certificates", 8)[:7],
		"[############............] 2/4 certificates ": line(2, 4, "certificates ", 0),
	} {
		assert.Equal(t, want, got)
	}
	assert.Len(t, line(1, 4, "certificates", 20), 19, "a full line would wrap")
}

// Lines stay above the bar, which is removed at the end.
func TestLinesStayAboveTheBar(t *testing.T) {
	var screen strings.Builder
	b := New(&screen, 80)
	out := b.Above(&screen)
	b.Set(1, 2, "x")
	_, _ = io.WriteString(out, "a line\n")
	b.Set(1, 2, "x")
	b.Clear()
	bar := clearLine + line(1, 2, "x", 80)
	assert.Equal(t, bar+clearLine+"a line\n"+bar+clearLine, screen.String())
}

func TestNoBar(t *testing.T) {
	var none *Bar
	none.Set(1, 2, "x")
	none.Clear()
	var out strings.Builder
	assert.Same(t, &out, none.Above(&out))
}
