// Package progress draws a progress bar on the last line of a terminal.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/servingcert/servingcert/pkg/api"
)

const (
	barWidth  = 24 // in columns, without its brackets
	clearLine = "\r\x1b[K"
)

// Bar is a line that is redrawn below the lines of other output. A nil Bar draws nothing.
type Bar struct {
	terminal io.Writer
	columns  int // of the terminal

	mu    sync.Mutex
	drawn string // the current text
}

// New returns a bar on a terminal with that number of columns.
func New(terminal io.Writer, columns int) *Bar { return &Bar{terminal: terminal, columns: columns} }

// Set draws the bar with done of total and their description. It draws nothing if total
// is 0.
func (b *Bar) Set(done, total int, what string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draw(line(done, total, what, b.columns))
}

// Clear removes the bar.
func (b *Bar) Clear() { b.Set(0, 0, "") }

func (b *Bar) draw(text string) {
	if text == b.drawn {
		return
	}
	_, _ = io.WriteString(b.terminal, clearLine+text) // errors do not matter: the bar only repeats other lines
	b.drawn = text
}

// Above returns a writer of lines above the bar; out itself if b is nil.
func (b *Bar) Above(out io.Writer) io.Writer {
	if b == nil {
		return out
	}
	return above{b, out}
}

type above struct {
	bar *Bar
	out io.Writer
}

// Write implements io.Writer.
func (a above) Write(text []byte) (int, error) {
	a.bar.mu.Lock()
	defer a.bar.mu.Unlock()
	was := a.bar.drawn
	a.bar.draw("")
	n, err := a.out.Write(text)
	a.bar.draw(was)
	return n, err
}

// line returns the text of a bar that fits in one line.
func line(done, total int, what string, columns int) string {
	if total <= 0 {
		return ""
	}
	done = min(max(done, 0), total)
	full := barWidth * done / total
	text := fmt.Sprintf("[%s%s] %d/%d %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, total, api.Escape(what))
	if columns > 0 && utf8.RuneCountInString(text) >= columns {
		text = string([]rune(text)[:columns-1])
	}
	return text
}
