package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// edit replaces a part of the text.
type edit struct {
	at, end int
	text    string
	lines   bool // whole lines, which begin after a line break
}

// editor collects the edits that turn the text of a document into that of another value.
// All else in the text stays: comments, order, quotes and line breaks.
type editor struct {
	text  []byte
	json  bool
	step  string // of the indentation of JSON
	edits []edit
}

var errEdit = errors.New("this part of the text cannot be changed in place")

// edited returns the text of a document whose object is old, changed so that its object
// is target.
func (c chunk) edited(old, target map[string]any) (chunk, error) {
	if out, err := c.inPlace(old, target); err == nil {
		return out, nil
	}
	return c.reformatted(old, target)
}

// inPlace changes only the parts of the text that differ.
func (c chunk) inPlace(old, target map[string]any) (chunk, error) {
	begin := c.begin()
	e := &editor{text: c.text[begin:], json: c.json}
	var tree *node
	if c.json {
		tree = treeOfJSON(e.text, 0)
		if len(tree.keys) > 0 {
			e.step = strings.TrimLeft(e.between(tree.at, tree.keys[0].at), "\n")
		}
	} else {
		root, err := c.nodes()
		if err != nil {
			return c, err
		}
		tree = treeOfYAML(&cursor{text: e.text, line: 1, column: 1}, root.Content[0], false, -1)
	}
	if err := e.diff(tree, old, target); err != nil {
		return c, err
	}
	body, err := e.apply()
	if err != nil {
		return c, err
	}
	out := chunk{text: slices.Concat(c.text[:begin], body), json: c.json}
	return out, out.verify(target)
}

// verify returns an error unless the text says what it should.
func (c chunk) verify(target map[string]any) error {
	got, err := c.decode()
	if err == nil && !reflect.DeepEqual(got, target) {
		err = errEdit
	}
	return err
}

// apply returns the text with the edits.
func (e *editor) apply() ([]byte, error) {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.at - b.at })
	eol := lineBreak(e.text)
	var out bytes.Buffer
	at := 0
	for _, d := range e.edits {
		if d.at < at {
			return nil, errEdit
		}
		out.Write(e.text[at:d.at])
		if d.lines && out.Len() > 0 && out.Bytes()[out.Len()-1] != '\n' {
			out.WriteString(eol)
		}
		out.WriteString(strings.ReplaceAll(d.text, "\n", eol))
		at = d.end
	}
	out.Write(e.text[at:])
	return out.Bytes(), nil
}

// lineBreak returns how the lines of a text end.
func lineBreak(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// diff collects the edits of a value. Those of its parts come first: of two insertions
// at one place, the first is the one that is nested deeper.
func (e *editor) diff(n *node, old, target any) error {
	switch target := target.(type) {
	case map[string]any:
		if old, ok := old.(map[string]any); ok && n.kind == mapping && len(n.values) > 0 {
			return e.diffMapping(n, old, target)
		}
	case []any:
		if old, ok := old.([]any); ok && n.kind == sequence && len(n.values) == len(old) && len(old) > 0 {
			return e.diffSequence(n, old, target)
		}
	}
	return errEdit
}

func (e *editor) diffMapping(n *node, old, target map[string]any) error {
	var added []string
	for _, name := range slices.Sorted(maps.Keys(target)) {
		before, ok := old[name]
		if !ok {
			added = append(added, name)
			continue
		}
		if reflect.DeepEqual(before, target[name]) {
			continue
		}
		i := n.index(name)
		if i < 0 {
			return errEdit
		}
		err := e.diff(n.values[i], before, target[name])
		if errors.Is(err, errEdit) {
			err = e.replace(n, i, target[name])
		}
		if err != nil {
			return err
		}
	}
	var removed []string
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, ok := target[name]; !ok {
			removed = append(removed, name)
		}
	}
	if len(removed) == 1 && len(added) == 1 && e.rename(n, n.index(removed[0]), added[0], target[added[0]]) {
		return nil
	}
	for _, name := range removed {
		if err := e.remove(n, n.index(name)); err != nil {
			return err
		}
	}
	return e.addMembers(n, added, target)
}

// addMembers adds members after the last one.
func (e *editor) addMembers(n *node, names []string, target map[string]any) error {
	if len(names) == 0 {
		return nil
	}
	if !n.flow {
		members := make(map[string]any, len(names))
		for _, name := range names {
			members[name] = target[name]
		}
		e.insertLines(e.blockEnd(n), indent(block(members), n.column))
		return nil
	}
	last := n.values[len(n.values)-1]
	between := e.between(n.at, n.keys[0].at)
	var text strings.Builder
	for _, name := range names {
		key := e.flowText(name, "")
		text.WriteString("," + between + key + ": " + e.flowText(target[name], between))
	}
	end := last.endIn(e.text)
	e.edits = append(e.edits, edit{at: end, end: end, text: text.String()})
	return nil
}

// between returns what separates the elements of a collection in flow style: a space, or
// a line break and an indentation.
func (e *editor) between(bracket, first int) string {
	if space := e.text[bracket+1 : first]; len(bytes.TrimSpace(space)) == 0 && bytes.IndexByte(space, '\n') >= 0 {
		return strings.ReplaceAll(string(space[bytes.LastIndexByte(space, '\n'):]), "\r", "")
	}
	return " "
}

// diffSequence inserts elements, or changes them if there are as many as before.
func (e *editor) diffSequence(n *node, old, target []any) error {
	if len(old) == len(target) {
		for i := range old {
			if reflect.DeepEqual(old[i], target[i]) {
				continue
			}
			if err := e.diff(n.values[i], old[i], target[i]); err != nil {
				return err
			}
		}
		return nil
	}
	i, from := 0, 0
	for j := range target {
		if i == len(old) {
			break
		}
		if reflect.DeepEqual(old[i], target[j]) {
			if err := e.insertElements(n, i, target[from:j]); err != nil {
				return err
			}
			i, from = i+1, j+1
		}
	}
	if i < len(old) {
		return errEdit
	}
	return e.insertElements(n, i, target[from:])
}

// insertElements inserts values before the element at an index, or after the last.
func (e *editor) insertElements(n *node, index int, values []any) error {
	if len(values) == 0 {
		return nil
	}
	if !n.flow {
		at := e.blockEnd(n)
		if index < len(n.values) {
			var ok bool
			if at, ok = e.dash(n, index); !ok {
				return errEdit
			}
		}
		e.insertLines(at, indent(block(values), n.column))
		return nil
	}
	between := e.between(n.at, n.values[0].at)
	var text strings.Builder
	for _, v := range values {
		if index < len(n.values) {
			text.WriteString(e.flowText(v, between) + "," + between)
		} else {
			text.WriteString("," + between + e.flowText(v, between))
		}
	}
	at := 0
	if index < len(n.values) {
		at = n.values[index].at
	} else {
		at = n.values[index-1].endIn(e.text)
	}
	e.edits = append(e.edits, edit{at: at, end: at, text: text.String()})
	return nil
}

// flowText returns a value for a place in flow style.
func (e *editor) flowText(value any, between string) string {
	if e.json {
		prefix, ok := strings.CutPrefix(between, "\n")
		if !ok {
			return compactJSON(value)
		}
		return e.indentedJSON(value, prefix)
	}
	return flow(value)
}

// insertLines inserts whole lines.
func (e *editor) insertLines(at int, text string) {
	e.edits = append(e.edits, edit{at: at, end: at, text: text, lines: true})
}

func compactJSON(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it was decoded from JSON
	return strings.TrimSuffix(out.String(), "\n")
}

// indentedJSON returns the value in lines, all but the first with a prefix.
func (e *editor) indentedJSON(value any, prefix string) string {
	var out bytes.Buffer
	_ = json.Indent(&out, []byte(compactJSON(value)), prefix, e.step) // it is valid
	return out.String()
}
