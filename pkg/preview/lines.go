package preview

import "bytes"

// lineStart returns where the line of an offset begins.
func (e *editor) lineStart(at int) int { return startOfLine(e.text, at) }

// nextLine returns where the line after that of an offset begins.
func (e *editor) nextLine(at int) int {
	if i := bytes.IndexByte(e.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(e.text)
}

// blockEnd returns where the line after a block begins. Comments and empty lines that
// follow the block are not part of it.
func (e *editor) blockEnd(n *node) int {
	last := n.last()
	begin := n.at
	end := e.nextLine(begin)
	for at := end; at < len(e.text); at = e.nextLine(at) {
		line := e.text[at:e.nextLine(at)]
		bare := bytes.TrimLeft(line, " ")
		column := len(line) - len(bare)
		switch {
		case len(bytes.TrimSpace(bare)) == 0:
			continue
		case bare[0] == '#' && (last.holder < 0 || at < last.at || column <= last.holder):
			continue // not the end, if more of the block follows
		case column < n.column, column == 0 && isEndMarker(bytes.TrimRight(bare, " \t\r\n")):
			return end
		case n.kind == sequence && column == n.column && !isDash(bare):
			return end
		}
		end = at + len(line)
	}
	return end
}

func isDash(text []byte) bool { return text[0] == '-' && (len(text) == 1 || isBlank(text[1])) }

// dash returns where the line with the dash of an element begins, with the comments
// before it if it is the first. It reports false if something else is in front of it.
func (e *editor) dash(n *node, index int) (int, bool) {
	at := e.lineStart(n.values[index].at)
	for {
		line := e.text[at:]
		if at+n.column < len(e.text) && len(bytes.TrimLeft(line[:n.column], " ")) == 0 && isDash(line[n.column:]) {
			break
		}
		if at <= n.at || at == 0 {
			return 0, false
		}
		at = e.lineStart(at - 1)
	}
	for index == 0 && at > 0 {
		before := e.lineStart(at - 1)
		if line := bytes.TrimLeft(e.text[before:at], " "); line[0] != '#' || at-before-len(line) != n.column {
			break
		}
		at = before
	}
	return at, true
}

// replace replaces the value of a member, if it is on one line.
func (e *editor) replace(n *node, i int, value any) error {
	old, key := n.values[i], n.keys[i]
	empty := (old.kind == mapping || old.kind == sequence) && len(old.values) == 0 && old.flow
	if old.kind != scalar && !empty {
		return errEdit
	}
	if n.flow {
		text := e.flowText(value, e.between(n.at, n.keys[0].at))
		if old.at > 0 && e.text[old.at-1] == ':' {
			text = " " + text
		}
		e.edits = append(e.edits, edit{at: old.at, end: old.endIn(e.text), text: text})
		return nil
	}
	colon := key.end
	for colon < len(e.text) && isBlank(e.text[colon]) {
		colon++
	}
	if colon >= len(e.text) || e.text[colon] != ':' {
		return errEdit
	}
	begin, end := colon+1, max(old.endIn(e.text), colon+1)
	if e.lineStart(begin) != e.lineStart(end) {
		return errEdit
	}
	if text, ok := inline(value); ok {
		e.edits = append(e.edits, edit{at: begin, end: end, text: " " + text})
		return nil
	}
	column := n.column
	if _, ok := value.(map[string]any); ok {
		column += 2
	}
	e.edits = append(e.edits, edit{at: begin, end: end})
	e.insertLines(e.nextLine(end), indent(block(value), column))
	return nil
}

// rename gives a member another name and value in its place, and reports whether that is
// possible. Comments in a value on several lines are lost.
func (e *editor) rename(n *node, i int, name string, value any) bool {
	if i < 0 || n.kind != mapping || n.keys[i].kind != scalar {
		return false
	}
	key, old := n.keys[i], n.values[i]
	edits := []edit{{at: key.at, end: key.end, text: plain(name)}}
	text, oneLine := inline(value)
	switch collection := old.kind == mapping || old.kind == sequence; {
	case n.flow, collection && old.flow:
		if old.kind != scalar && !collection {
			return false
		}
		if n.flow {
			edits[0].text = e.flowText(name, "")
		}
		edits = append(edits, edit{at: old.at, end: old.endIn(e.text), text: e.flowText(value, "")})
	case collection && !oneLine && len(old.values) > 0 && e.lineStart(old.at) > key.at:
		edits = append(edits, edit{at: e.nextLine(key.at), end: e.blockEnd(old), text: indent(block(value), n.column+2), lines: true})
	case old.kind == scalar && oneLine && old.end > old.at:
		edits = append(edits, edit{at: old.at, end: old.end, text: text})
	default:
		return false
	}
	e.edits = append(e.edits, edits...)
	return true
}

// remove removes a member that is not the only one, and whose value is on one line.
func (e *editor) remove(n *node, i int) error {
	if i < 0 || len(n.values) < 2 || n.values[i].kind != scalar || n.kind != mapping {
		return errEdit
	}
	key, value := n.keys[i], n.values[i]
	switch {
	case !n.flow:
		start := e.lineStart(key.at)
		if key.at-start != n.column || len(bytes.TrimLeft(e.text[start:key.at], " ")) > 0 {
			return errEdit
		}
		e.edits = append(e.edits, edit{at: start, end: e.nextLine(value.end)})
	case i+1 < len(n.values):
		e.edits = append(e.edits, edit{at: key.at, end: n.keys[i+1].at})
	default:
		e.edits = append(e.edits, edit{at: n.values[i-1].endIn(e.text), end: value.end})
	}
	return nil
}
