package preview

import (
	"bytes"
	"fmt"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Object is one object of a document: the document itself, or an item of a List.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// Content is the object as it is written. Numbers are json.Number.
	Content map[string]any
	// At is where the object is in its document: names of members (string) and indices
	// of elements (int).
	At []any
}

// Objects returns the objects of a document. namespace is that of objects without one.
func (d Document) Objects(namespace string) []Object {
	if d.object == nil {
		return nil
	}
	found, _ := objectsOf(d.object, namespace)
	out := make([]Object, len(found))
	for i, o := range found {
		who := o.outcome(namespace, nil)
		out[i] = Object{o.apiVersion, o.kind, who.Namespace, who.Name, o.content, o.at}
	}
	return out
}

// Change returns the document as change leaves the copy of its object that it is given. The
// text changes where the object does, and stays as it is elsewhere. The document must have
// an object. The error says that the change cannot be written into the text.
func (d Document) Change(change func(object map[string]any)) (Document, error) {
	target, _ := clone(d.object).(map[string]any)
	change(target)
	changed, err := d.edited(d.object, target)
	if err != nil {
		return d, fmt.Errorf("%s: %w", d.name, err)
	}
	d.chunk, d.object = changed, target
	return d, nil
}

// Workloads returns the workloads of a document, with their pods or why these cannot be read.
// Nothing is decided about them, and containers outside of pod templates are left out.
func (d Document) Workloads(namespace string) []Outcome {
	if d.object == nil {
		return nil
	}
	var out []Outcome
	found, _ := objectsOf(d.object, namespace)
	for _, o := range found {
		workloads, _ := workloadsOf(o, namespace)
		for _, w := range workloads {
			w.Document = d.name
			out = append(out, w.Outcome)
		}
	}
	return out
}

// File returns the name of the file that the document is in.
func (d Document) File() string { return d.file }

// Lines says in which lines of its file a document has what.
type Lines struct {
	first, above int
	root         *yamlv3.Node // nil if there is none, or it is JSON that YAML does not parse
}

// Lines returns the lines of the document.
func (d Document) Lines() Lines {
	l := Lines{first: d.line, above: d.line - 1 + bytes.Count(d.text[:d.begin()], []byte("\n"))}
	if root, err := d.nodes(); err == nil && root != nil && len(root.Content) > 0 {
		l.root = root.Content[0]
	}
	return l
}

// Of returns the line of the value at a path in the document, of a member that of its key;
// if there is no such value, of the nearest one that contains it.
func (l Lines) Of(at ...any) int {
	if l.root == nil {
		return l.first
	}
	node := l.root
	line := l.above + node.Line
	for _, elem := range at {
		for node.Kind == yamlv3.AliasNode {
			node = node.Alias
		}
		key, value := child(node, elem)
		if value == nil {
			break
		}
		line, node = l.above+key.Line, value
	}
	return line
}

// child returns the node of a member's key or of an element, and its value; nil if there
// is none.
func child(node *yamlv3.Node, elem any) (key, value *yamlv3.Node) {
	switch elem := elem.(type) {
	case string:
		for i := 0; node.Kind == yamlv3.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == elem {
				return node.Content[i], node.Content[i+1]
			}
		}
	case int:
		if node.Kind == yamlv3.SequenceNode && elem < len(node.Content) {
			return node.Content[elem], node.Content[elem]
		}
	}
	return nil, nil
}
