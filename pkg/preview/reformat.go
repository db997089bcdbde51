package preview

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"
)

// reformatted changes the document as a tree and writes all of it again. Comments, the
// order of keys and the line breaks stay; aliases are replaced by what they refer to,
// because a change of one place must not change others.
func (c chunk) reformatted(old, target map[string]any) (chunk, error) {
	err := errors.New("the change cannot be written into this text: remove its anchors, aliases and tags")
	if c.json {
		return c, err
	}
	root, parseErr := c.nodes()
	if parseErr != nil {
		return c, parseErr
	}
	root = expanded(root)
	change(root.Content[0], old, target)
	if lead := c.lead(); bytes.IndexByte(c.text[:lead], '#') >= 0 { // its comments are kept as text
		root.HeadComment, root.Content[0].HeadComment, root.Content[0].Content[0].HeadComment = "", "", ""
	}
	var body bytes.Buffer
	encoder := yamlv3.NewEncoder(&body)
	encoder.SetIndent(2)
	if encoder.Encode(root) != nil {
		return c, err
	}
	text := bytes.ReplaceAll(body.Bytes(), []byte("\r"), nil)
	text = bytes.ReplaceAll(text, []byte("\n"), []byte(lineBreak(c.text)))
	out := chunk{text: slices.Concat(c.text[:c.lead()], text)}
	if out.verify(target) != nil {
		return c, err
	}
	return out, nil
}

// expanded returns a copy of the tree without anchors, aliases and merge keys. How large
// it can be was checked when the document was parsed.
func expanded(n *yamlv3.Node) *yamlv3.Node {
	if n.Kind == yamlv3.AliasNode {
		out := expanded(n.Alias)
		out.HeadComment, out.LineComment, out.FootComment = n.HeadComment, n.LineComment, n.FootComment
		return out
	}
	out := *n
	out.Anchor, out.Content = "", nil
	var merged []*yamlv3.Node
	for i, child := range n.Content {
		child = expanded(child)
		if n.Kind != yamlv3.MappingNode {
			out.Content = append(out.Content, child)
			continue
		}
		switch {
		case i%2 == 0 && child.Tag == "!!merge":
		case i%2 == 1 && n.Content[i-1].Tag == "!!merge":
			merged = append(merged, child)
		default:
			out.Content = append(out.Content, child)
		}
	}
	for _, m := range merged {
		mergeKeys(&out, m)
	}
	return &out
}

// mergeKeys adds the members of a mapping, or of each of a sequence, that are not there.
func mergeKeys(into, from *yamlv3.Node) {
	if from.Kind == yamlv3.SequenceNode {
		for _, m := range from.Content {
			mergeKeys(into, m)
		}
		return
	}
	have := map[string]bool{}
	for i := 0; i < len(into.Content); i += 2 {
		have[into.Content[i].Value] = true
	}
	for i := 0; i+1 < len(from.Content); i += 2 {
		if !have[from.Content[i].Value] {
			into.Content = append(into.Content, from.Content[i], from.Content[i+1])
		}
	}
}

// change turns a tree whose value is old into one whose value is target.
func change(n *yamlv3.Node, old, target any) {
	if reflect.DeepEqual(old, target) {
		return
	}
	switch target := target.(type) {
	case map[string]any:
		if old, ok := old.(map[string]any); ok && n.Kind == yamlv3.MappingNode {
			changeMapping(n, old, target)
			return
		}
	case []any:
		if old, ok := old.([]any); ok && n.Kind == yamlv3.SequenceNode && len(old) == len(n.Content) {
			changeSequence(n, old, target)
			return
		}
	}
	made := nodeOf(target)
	made.HeadComment, made.LineComment, made.FootComment = n.HeadComment, n.LineComment, n.FootComment
	*n = *made
}

func changeMapping(n *yamlv3.Node, old, target map[string]any) {
	seen := map[string]bool{}
	var content []*yamlv3.Node
	for i := len(n.Content) - 2; i >= 0; i -= 2 { // of members with one name the last counts
		name, value := n.Content[i].Value, n.Content[i+1]
		want, ok := target[name]
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		change(value, old[name], want)
		content = append(content, value, n.Content[i])
	}
	slices.Reverse(content)
	for _, name := range slices.Sorted(maps.Keys(target)) {
		if !seen[name] {
			content = append(content, nodeOf(name), nodeOf(target[name]))
		}
	}
	n.Content = content
	if n.Style&yamlv3.FlowStyle != 0 && len(old) == 0 {
		n.Style = 0
	}
}

func changeSequence(n *yamlv3.Node, old, target []any) {
	if len(old) == len(target) {
		for i := range old {
			change(n.Content[i], old[i], target[i])
		}
		return
	}
	var content []*yamlv3.Node
	i := 0
	for _, v := range target {
		if i < len(old) && reflect.DeepEqual(old[i], v) {
			content = append(content, n.Content[i])
			i++
			continue
		}
		content = append(content, nodeOf(v))
	}
	n.Content = content
	if n.Style&yamlv3.FlowStyle != 0 && len(old) == 0 {
		n.Style = 0
	}
}

// nodeOf returns the tree of a value.
func nodeOf(value any) *yamlv3.Node {
	var document yamlv3.Node
	_ = yamlv3.Unmarshal([]byte(block(value)), &document) // it was written here
	return document.Content[0]
}
