package preview

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// tree returns the tree of a YAML document, or nil if there are only comments.
func (d *Document) tree() (*kyaml.RNode, error) {
	if bytes.HasPrefix(d.body, []byte("%")) {
		return nil, errors.New("begins with a directive, which kubectl does not support: remove the line with %")
	}
	decoder := kyaml.NewDecoder(bytes.NewReader(d.body))
	var root, more kyaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return nil, fmt.Errorf(`line %d: contains more than one YAML document: each must begin with a line "---"`, more.Line)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf(`%w: each document must begin with a line "---"`, err)
	}
	_, err := sizes{}.of(&root)
	return kyaml.NewRNode(&root), err
}

// sizes are the sizes of anchored nodes with their aliases replaced: the bytes of their
// text, and the memory of a node for each value.
type sizes map[*kyaml.Node]int

func (s sizes) of(n *kyaml.Node) (int, error) {
	if n.Kind == kyaml.AliasNode {
		size, ok := s[n.Alias]
		if !ok {
			return 0, fmt.Errorf("line %d: alias *%s: refers to a value that contains it", n.Line, n.Value)
		}
		return size, nil
	}
	total := 64 + len(n.Value)
	for _, c := range n.Content {
		size, err := s.of(c)
		if err != nil {
			return 0, err
		}
		total += size
		if len(s) > 0 && total > maxExpanded {
			return 0, fmt.Errorf("aliases expand it to more than %d MiB", maxExpanded>>20)
		}
	}
	if n.Anchor != "" {
		s[n] = total
	}
	return total, nil
}

// Lines maps paths in a document to lines of its file.
type Lines struct {
	first int
	root  *kyaml.Node // nil if there are only comments, or JSON that is not valid YAML
}

// Lines returns the lines of the document.
func (d Document) Lines() Lines {
	l := Lines{first: d.line}
	if root, err := d.tree(); err == nil {
		l.root = root.YNode()
	}
	return l
}

// Of returns the line of the value at a path in the document; for a member, the line of its
// key. If the path does not exist, it returns the line of its longest existing part.
func (l Lines) Of(at ...any) int {
	if l.root == nil {
		return l.first
	}
	node := l.root
	line := node.Line
	for _, elem := range at {
		for node.Kind == kyaml.AliasNode {
			node = node.Alias
		}
		key, value := child(node, elem)
		if value == nil {
			break
		}
		line, node = key.Line, value
	}
	return l.first - 1 + line
}

// child returns the node of a member's key or of an element, and its value; nil if there
// is none. Of duplicate members, the last counts.
func child(node *kyaml.Node, elem any) (key, value *kyaml.Node) {
	switch elem := elem.(type) {
	case string:
		for i := len(node.Content) - 2; node.Kind == kyaml.MappingNode && i >= 0; i -= 2 {
			if node.Content[i].Value == elem {
				return node.Content[i], node.Content[i+1]
			}
		}
	case int:
		if node.Kind == kyaml.SequenceNode && elem < len(node.Content) {
			return node.Content[elem], node.Content[elem]
		}
	}
	return nil, nil
}
