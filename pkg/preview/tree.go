package preview

import (
	"bytes"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
)

// kind is what a node of a tree is.
type kind byte

const (
	scalar  kind = iota // on one line
	long                // a scalar on several lines, or with an anchor or a tag
	mapping             // and so on: a value that can be changed in the text
	sequence
	opaque // an alias, or a collection with an anchor's or tag's indentation
)

// node is a value in the text of a document.
type node struct {
	kind kind
	flow bool // in brackets, as all of JSON is
	at   int  // where it begins in the text
	end  int  // where a scalar ends, or a value in JSON
	// column is the indentation of the keys, or of the dashes, of a block.
	column int
	keys   []*node // of a mapping, in the order of the text
	names  []string
	values []*node // of a mapping or a sequence
	holder int     // the column of the block that a literal scalar is in; -1 for others
}

// last returns the last node in the text that is part of this one.
func (n *node) last() *node {
	for len(n.values) > 0 {
		n = n.values[len(n.values)-1]
	}
	return n
}

// index returns the index of a member, the last one if a name is given twice, or -1.
func (n *node) index(name string) int {
	for i := len(n.names) - 1; i >= 0; i-- {
		if n.names[i] == name {
			return i
		}
	}
	return -1
}

// treeOfJSON returns the tree of a JSON value that is known to be valid, at an offset.
func treeOfJSON(text []byte, at int) *node {
	at = skipSpace(text, at)
	n := &node{flow: true, at: at, holder: -1}
	closing := byte(']')
	switch text[at] {
	case '{':
		n.kind, closing = mapping, '}'
	case '[':
		n.kind = sequence
	default:
		n.end = scalarEnd(text, at, true)
		return n
	}
	for at = skipSpace(text, at+1); text[at] != closing; {
		if n.kind == mapping {
			key := treeOfJSON(text, at)
			name, _ := decodeJSON(text[key.at:key.end]) // it is valid
			s, _ := name.(string)
			n.keys, n.names = append(n.keys, key), append(n.names, s)
			at = skipSpace(text, key.end) + 1 // the colon
		}
		value := treeOfJSON(text, at)
		n.values = append(n.values, value)
		if at = skipSpace(text, value.end); text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	n.end = at + 1
	return n
}

// endIn returns where the node ends, if it is in flow style.
func (n *node) endIn(text []byte) int {
	if n.flow && len(n.values) > 0 || n.kind != scalar && n.kind != long {
		return max(n.end, flowEnd(text, n.at))
	}
	return n.end
}

// flowEnd returns where a collection in flow style ends.
func flowEnd(text []byte, at int) int {
	depth := 0
	for i := at; i < len(text); {
		switch b := text[i]; {
		case b == '{' || b == '[':
			depth++
			i++
		case b == '}' || b == ']':
			depth--
			if i++; depth <= 0 {
				return i
			}
		case b == '#' && i > 0 && isBlank(text[i-1]):
			i += max(1, bytes.IndexByte(text[i:], '\n'))
		case isBlank(b) || b == ',' || b == ':':
			i++
		default:
			i = max(i+1, scalarEnd(text, i, true))
		}
	}
	return len(text)
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// quoteEnd returns where a quoted scalar ends.
func quoteEnd(text []byte, at int) int {
	quote := text[at]
	for i := at + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// plainEnd returns where a scalar without quotes ends, or its first line.
func plainEnd(text []byte, at int, flow bool) int {
	i := at
	for ; i < len(text) && text[i] != '\n' && text[i] != '\r'; i++ {
		b := text[i]
		if flow && bytes.IndexByte([]byte(",[]{}"), b) >= 0 || b == '#' && i > at && isBlank(text[i-1]) {
			break
		}
		if b == ':' && (i+1 == len(text) || isBlank(text[i+1]) || flow && bytes.IndexByte([]byte(",[]{}"), text[i+1]) >= 0) {
			break
		}
	}
	for i > at && isBlank(text[i-1]) {
		i--
	}
	return i
}

// scalarEnd returns where a scalar on one line ends.
func scalarEnd(text []byte, at int, flow bool) int {
	if at < len(text) && (text[at] == '"' || text[at] == '\'') {
		return quoteEnd(text, at)
	}
	return plainEnd(text, at, flow)
}

// cursor turns lines and columns, as the parser counts them, into offsets. Positions
// mostly follow each other, so that all of them together cost one pass over the text.
type cursor struct {
	text             []byte
	at, line, column int
}

func (c *cursor) seek(line, column int) int {
	if line < c.line || line == c.line && column < c.column {
		c.at, c.line, c.column = 0, 1, 1
	}
	for c.at < len(c.text) && (c.line < line || c.line == line && c.column < column) {
		r, size := utf8.DecodeRune(c.text[c.at:])
		c.at += size
		c.column++
		if r == '\r' && c.at < len(c.text) && c.text[c.at] == '\n' {
			continue
		}
		if r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			c.line, c.column = c.line+1, 1
		}
	}
	return c.at
}

// treeOfYAML returns the tree of a parsed YAML value. holder is the column of the block
// that the value is in.
func treeOfYAML(c *cursor, y *yamlv3.Node, flow bool, holder int) *node {
	n := &node{at: c.seek(y.Line, y.Column), flow: flow || y.Style&yamlv3.FlowStyle != 0, holder: -1}
	plain := y.Anchor == "" && y.Style&yamlv3.TaggedStyle == 0
	switch y.Kind {
	case yamlv3.ScalarNode:
		n.readScalar(c.text, y, plain, holder)
		return n
	case yamlv3.MappingNode:
		n.kind = mapping
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.readMember(c, y.Content[i], y.Content[i+1], holder)
		}
	case yamlv3.SequenceNode:
		n.kind, n.column = sequence, n.at-startOfLine(c.text, n.at)
		for _, v := range y.Content {
			n.values = append(n.values, treeOfYAML(c, v, n.flow, n.column))
		}
	default:
		n.kind = opaque
	}
	if !plain && (n.flow || n.kind == sequence) {
		n.kind = opaque
	}
	return n
}

func startOfLine(text []byte, at int) int { return 1 + bytes.LastIndexByte(text[:at], '\n') }

func (n *node) readScalar(text []byte, y *yamlv3.Node, plain bool, holder int) {
	if y.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle) != 0 {
		n.kind, n.holder = long, holder
		return
	}
	n.end = n.at
	if y.Tag != "!!null" || y.Value != "" {
		n.end = scalarEnd(text, n.at, n.flow)
	}
	if !plain || bytes.IndexByte(text[n.at:n.end], '\n') >= 0 {
		n.kind = long
	}
}

func (n *node) readMember(c *cursor, name, value *yamlv3.Node, holder int) {
	key := treeOfYAML(c, name, n.flow, holder)
	if len(n.keys) == 0 && !n.flow {
		n.at, n.column = key.at, key.at-startOfLine(c.text, key.at)
	}
	if name.Kind != yamlv3.ScalarNode || name.Tag == "!!merge" {
		n.kind = opaque
	}
	n.keys, n.names = append(n.keys, key), append(n.names, name.Value)
	n.values = append(n.values, treeOfYAML(c, value, n.flow, n.column))
}
