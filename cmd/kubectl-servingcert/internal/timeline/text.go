package timeline

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Tone is how a piece of text may be painted. It only repeats what the text says.
type Tone string

// The tones.
const (
	Plain Tone = ""
	Good  Tone = "good"
	Doubt Tone = "doubt"
	Bad   Tone = "bad"
)

// Piece is text of one tone.
type Piece struct {
	Text string
	Tone Tone
}

// Line is a line of text.
type Line []Piece

// String returns the line without its tones.
func (l Line) String() string {
	var b strings.Builder
	for _, p := range l {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Widths of the text, in columns.
const (
	minWidth = 60
	maxWidth = 200
	maxName  = 28
)

// cell is one character of a lane.
type cell struct {
	char rune
	tone Tone
}

// text draws a Timeline.
type text struct {
	Timeline
	glyphs bool
	names  int // columns
	scale  scale
}

// Text returns the timeline in lines of at most columns characters, as far as names and
// messages are not longer. Glyphs are characters beyond ASCII.
func (t Timeline) Text(columns int, glyphs bool) []Line {
	w := text{Timeline: t, glyphs: glyphs}
	for _, l := range t.Lanes {
		w.names = max(w.names, utf8.RuneCountInString(l.Name))
	}
	w.names = min(w.names, maxName)
	width := min(max(columns, minWidth), maxWidth) - w.names - 2
	w.scale = scale{t.From, t.Until, float64(width)}
	lines := append([]Line{}, w.axis()...)
	for _, l := range t.Lanes {
		lines = append(lines, w.lane(l))
	}
	lines = append(lines, nil)
	lines = append(lines, w.legend()...)
	lines = append(lines, w.details()...)
	for _, missing := range t.Missing {
		lines = append(lines, nil, Line{{"Not shown: ", Doubt}, {missing, Plain}})
	}
	return lines
}

// column returns the column of a position.
func (w text) column(position float64) int {
	return min(max(int(position), 0), int(w.scale.width)-1)
}

// axis returns the labels of the ticks, and the axis.
func (w text) axis() []Line {
	width := int(w.scale.width)
	labels := []rune(strings.Repeat(" ", width))
	cells := make([]cell, width)
	for i := range cells {
		cells[i] = cell{axisSign.rune(w.glyphs), Plain}
	}
	free := 0
	for _, tick := range ticks(w.From, w.Until, max(2, width/14)) {
		at := w.column(w.scale.position(tick.at))
		cells[at].char = tickSign.rune(w.glyphs)
		if at < free || at+len(tick.label) > width {
			continue // no room: the tick has no label
		}
		copy(labels[at:], []rune(tick.label))
		free = at + len(tick.label) + 2
	}
	if w.scale.has(w.Now) {
		cells[w.column(w.scale.position(w.Now))] = cell{nowSign.rune(w.glyphs), nowSign.tone}
	}
	return []Line{{{strings.TrimRight(w.name("")+string(labels), " "), Plain}}, w.row("", cells)}
}

// name returns a name with as many columns as all have.
func (w text) name(name string) string {
	characters := []rune(name)
	if len(characters) > w.names {
		characters = append(characters[:w.names-1], '~')
	}
	return string(characters) + strings.Repeat(" ", w.names-len(characters)+2)
}

// row returns a line of cells, without spaces at its end.
func (w text) row(name string, cells []cell) Line {
	for len(cells) > 0 && cells[len(cells)-1].char == ' ' {
		cells = cells[:len(cells)-1]
	}
	if len(cells) == 0 {
		return Line{{strings.TrimRight(w.name(name), " "), Plain}}
	}
	line := Line{{w.name(name), Plain}}
	for _, c := range cells {
		if last := &line[len(line)-1]; len(line) > 1 && last.Tone == c.tone {
			last.Text += string(c.char)
			continue
		}
		line = append(line, Piece{string(c.char), c.tone})
	}
	return line
}

// lane returns the row of a lane. What is shorter than a column has one all the same: of
// several such spans the last, and a longer one begins after it.
func (w text) lane(l Lane) Line {
	cells := make([]cell, int(w.scale.width))
	for i := range cells {
		cells[i].char = ' '
	}
	if w.scale.has(w.Now) {
		cells[w.column(w.scale.position(w.Now))] = cell{nowSign.rune(w.glyphs), nowSign.tone}
	}
	free := 0
	for _, s := range l.Spans {
		from, until, ok := w.scale.span(s)
		if !ok {
			continue
		}
		begin := w.column(from)
		if free > begin && float64(free) < until-0.5 {
			begin = free
		}
		for free = begin; free == begin || float64(free) < until-0.5; free++ {
			cells[free] = cell{signs[s.Kind].rune(w.glyphs), signs[s.Kind].tone}
		}
	}
	w.cut(l, cells)
	for _, m := range l.Marks {
		if m.Kind.drawn() && w.scale.has(m.At) {
			cells[w.column(w.scale.position(m.At))] = cell{markSigns[m.Kind].rune(w.glyphs), markSigns[m.Kind].tone}
		}
	}
	return w.row(l.Name, cells)
}

// cut shows that spans go on beyond the axis.
func (w text) cut(l Lane, cells []cell) {
	for _, s := range l.Spans {
		if _, _, ok := w.scale.span(s); !ok {
			continue
		}
		if s.From.Before(w.From) {
			cells[0].char = sinceSign.rune(w.glyphs)
		}
		if s.Until.After(w.Until) {
			cells[len(cells)-1].char = untilSign.rune(w.glyphs)
		}
	}
}

// details returns when what happens, for each generation, and for a certificate if there
// is only one.
func (w text) details() []Line {
	certificates := 0
	for _, l := range w.Lanes {
		if l.Kind == Certificate {
			certificates++
		}
	}
	var lines []Line
	for _, l := range w.Lanes {
		if l.Kind == Certificate && certificates > 1 {
			continue
		}
		heading := l.Name
		if l.About != "" {
			heading += ": " + l.About
		}
		lines = append(lines, nil, Line{{heading, Plain}})
		for _, m := range l.Marks {
			lines = append(lines, Line{{"  " + clock(m.At) + "  " + words[m.Kind], Plain}})
		}
	}
	return lines
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
