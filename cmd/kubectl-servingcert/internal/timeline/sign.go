package timeline

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// sign is how a kind is drawn in text.
type sign struct {
	ascii, glyph rune
	tone         Tone
	meaning      string
}

var signs = map[SpanKind]sign{
	Prepared: {'p', '░', Doubt, "prepared, not trusted everywhere yet"},
	Trusted:  {'t', '▒', Doubt, "trusted everywhere, does not sign yet"},
	Signs:    {'#', '█', Good, "signs"},
	MaySign:  {'-', '─', Good, "may sign"},
	Used:     {'=', '▓', Plain, "its certificates may be in use"},
	Kept:     {'.', '·', Plain, "still trusted, no longer needed"},
	Valid:    {'#', '█', Good, "valid"},
	Renewal:  {'~', '▒', Doubt, "renewal is due"},
}

// order is the order of the legend.
var order = []SpanKind{Prepared, Trusted, Signs, MaySign, Used, Kept, Valid, Renewal}

var markSigns = map[MarkKind]sign{
	WasStored: {'o', '◇', Plain, "in the Secret"},
	WasServed: {'*', '◆', Good, "served since"},
}

// now and the ends of what is cut off.
var (
	nowSign   = sign{'|', '│', Bad, "now"}
	axisSign  = sign{'-', '─', Plain, ""}
	tickSign  = sign{'+', '┬', Plain, ""}
	sinceSign = sign{'<', '‹', Plain, "began before"}
	untilSign = sign{'>', '›', Plain, "goes on"}
)

func (s sign) rune(glyphs bool) rune {
	if glyphs {
		return s.glyph
	}
	return s.ascii
}

// legend explains what is drawn, and nothing else.
func (w text) legend() []Line {
	var used []sign
	for _, s := range w.legendSigns() {
		if !slices.ContainsFunc(used, func(u sign) bool { return u.meaning == s.meaning }) {
			used = append(used, s)
		}
	}
	lines := []Line{nil}
	columns := 0
	for _, s := range used {
		piece := fmt.Sprintf("%c %s   ", s.rune(w.glyphs), s.meaning)
		length := utf8.RuneCountInString(piece)
		if columns > 0 && columns+length > w.names+2+int(w.scale.width) {
			lines, columns = append(lines, nil), 0
		}
		columns += length
		last := &lines[len(lines)-1]
		*last = append(*last, Piece{string(s.rune(w.glyphs)), s.tone}, Piece{" " + s.meaning + "   ", Plain})
	}
	for _, line := range lines {
		if len(line) > 0 {
			last := &line[len(line)-1]
			last.Text = strings.TrimRight(last.Text, " ")
		}
	}
	return lines
}

// legendSigns returns the signs that stand for something on the axis.
func (w text) legendSigns() []sign {
	var used []sign
	for _, kind := range order {
		if w.shows(kind) {
			used = append(used, signs[kind])
		}
	}
	for _, kind := range []MarkKind{WasStored, WasServed} {
		if w.marks(kind) {
			used = append(used, markSigns[kind])
		}
	}
	if w.scale.has(w.Now) {
		now := nowSign
		now.meaning = "now, " + clock(w.Now)
		used = append(used, now)
	}
	return used
}

// shows reports whether a span of the kind is on the axis.
func (t Timeline) shows(kind SpanKind) bool {
	at := scale{t.From, t.Until, 1}
	return slices.ContainsFunc(t.Lanes, func(l Lane) bool {
		return slices.ContainsFunc(l.Spans, func(s Span) bool {
			_, _, ok := at.span(s)
			return ok && s.Kind == kind
		})
	})
}

// marks reports whether a mark of the kind is on the axis.
func (t Timeline) marks(kind MarkKind) bool {
	at := scale{t.From, t.Until, 1}
	return slices.ContainsFunc(t.Lanes, func(l Lane) bool {
		return slices.ContainsFunc(l.Marks, func(m Mark) bool { return m.Kind == kind && at.has(m.At) })
	})
}
