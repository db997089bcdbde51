package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

var (
	errEdit    = errors.New("the change cannot be written into this document: remove its anchors, aliases and tags")
	errMerge   = fmt.Errorf("the change cannot be written into this document: it has merge keys and more than %d values: remove its merge keys", maxMerged)
	errComment = errors.New("the change cannot be written into this document: a comment would be lost: move it to a line of its own")
)

// edited returns the document with another object. Where the objects are equal, values,
// comments and the order of keys are kept. kyaml determines indentation, empty lines and
// line breaks in long text; JSON is formatted by encoding/json.
func (d Document) edited(target map[string]any) (Document, error) {
	out := d
	out.body = bytes.ReplaceAll(d.body, []byte("\r\n"), []byte("\n"))
	windows := len(out.body) < len(d.body)
	var err error
	if out.body, err = out.rewritten(target); err != nil {
		return d, err
	}
	if windows {
		out.body = bytes.ReplaceAll(out.body, []byte("\n"), []byte("\r\n"))
	}
	if out.object, err = out.decode(); err != nil || !reflect.DeepEqual(out.object, target) {
		return d, errEdit
	}
	return out, nil
}

// rewritten returns the text of the document with another object.
func (d *Document) rewritten(target map[string]any) ([]byte, error) {
	if d.json {
		var body bytes.Buffer
		_ = json.Indent(&body, []byte(compactJSON(target)), "", "  ") // always valid JSON
		return append(body.Bytes(), '\n'), nil
	}
	d.body = endMarker.ReplaceAll(d.body, nil)
	root, err := d.tree()
	if err != nil || root == nil {
		return nil, errEdit
	}
	if hashes(root.Document()) < bytes.Count(d.body, []byte("#")) {
		return nil, errComment
	}
	if values, merges := expand(root.YNode()); merges {
		if values > maxMerged { // kyaml compares all keys of a mapping with each other
			return nil, errMerge
		}
		if root.DeAnchor() != nil {
			return nil, errEdit
		}
	}
	change(root.YNode(), d.object, target)
	indent := kyaml.SequenceIndentStyle(kyaml.DeriveSeqIndentStyle(string(d.body)))
	out, err := kyaml.MarshalWithOptions(root.Document(), &kyaml.EncoderOptions{SeqIndent: indent})
	if err != nil {
		return nil, errEdit
	}
	if bytes.Count(out, []byte("#")) < hashes(root.Document()) {
		return nil, errComment
	}
	return out, nil
}

// endMarker matches the end marker of a document. kyaml loses comments before it.
var endMarker = regexp.MustCompile(`(?m)^\.\.\.`)

// hashes counts "#" in the text of a tree. Each comment has one.
func hashes(n *kyaml.Node) int {
	total := strings.Count(n.HeadComment+n.LineComment+n.FootComment+n.Value+n.Anchor, "#")
	for _, c := range n.Content {
		total += hashes(c)
	}
	return total
}

// expand replaces aliases by their values, because a change in one place must not change
// others. It returns the number of values of the tree, and whether it has merge keys. The size
// of the result was checked when the document was parsed. Comments are moved to places where
// kyaml keeps them.
func expand(n *kyaml.Node) (values int, merges bool) {
	n.Anchor = ""
	for i, c := range n.Content {
		if c.Kind == kyaml.AliasNode {
			value := kyaml.CopyYNode(c.Alias) // it comes earlier, so its aliases are already replaced
			value.HeadComment, value.LineComment, value.FootComment = c.HeadComment, c.LineComment, c.FootComment
			n.Content[i] = value
		}
		if c.Tag == kyaml.MergeTag {
			value := n.Content[i+1]
			n.HeadComment = joined(n.HeadComment, c.HeadComment, c.LineComment, c.FootComment, value.HeadComment, value.LineComment, value.FootComment)
		}
		v, m := expand(n.Content[i])
		values, merges = values+v, merges || m || c.Tag == kyaml.MergeTag
		if onLines(n.Content[i]) {
			putAbove(n.Content[i], n.Content[i].Content[0])
		} else if n.Kind == kyaml.MappingNode && i%2 == 1 {
			putAbove(n.Content[i-1], n.Content[i-1]) // the comment after the anchor of a mapping belongs to its first key
		}
	}
	return values + 1, merges
}

// onLines reports whether a value is a collection with elements on lines of their own.
func onLines(n *kyaml.Node) bool { return len(n.Content) > 0 && n.Style&kyaml.FlowStyle == 0 }

// putAbove moves the line comment of a node above another node.
func putAbove(n, other *kyaml.Node) {
	other.HeadComment, n.LineComment = joined(n.LineComment, other.HeadComment), ""
}

func joined(comments ...string) string {
	return strings.Join(slices.DeleteFunc(comments, func(c string) bool { return c == "" }), "\n")
}

// change turns a tree whose value is old into one whose value is target.
func change(n *kyaml.Node, old, target any) {
	if reflect.DeepEqual(old, target) {
		return
	}
	switch target := target.(type) {
	case map[string]any:
		if old, ok := old.(map[string]any); ok && n.Kind == kyaml.MappingNode {
			changeMapping(n, old, target)
			return
		}
	case []any:
		if old, ok := old.([]any); ok && n.Kind == kyaml.SequenceNode && len(old) == len(n.Content) {
			changeSequence(n, old, target)
			return
		}
	}
	replacement := nodeOf(target)
	replacement.HeadComment, replacement.LineComment, replacement.FootComment = n.HeadComment, n.LineComment, n.FootComment
	*n = *replacement
	unfold(n)
}

func changeMapping(n *kyaml.Node, old, target map[string]any) {
	done := map[string]bool{}
	var content []*kyaml.Node
	for i := len(n.Content) - 2; i >= 0; i -= 2 { // of duplicate members, the last counts
		name, value := n.Content[i].Value, n.Content[i+1]
		before, had := old[name] // false for a key such as yes, which is a string only in YAML 1.2
		want, has := target[name]
		if had && (!has || done[name]) {
			continue
		}
		if had {
			done[name] = true
			change(value, before, want)
		}
		content = append(content, value, n.Content[i])
	}
	slices.Reverse(content)
	for _, name := range slices.Sorted(maps.Keys(target)) {
		if _, had := old[name]; !had {
			content = append(content, nodeOf(name), nodeOf(target[name]))
		}
	}
	n.Content = content
	if len(old) == 0 {
		unfold(n)
	}
}

func changeSequence(n *kyaml.Node, old, target []any) {
	var content []*kyaml.Node
	i := 0
	for _, v := range target {
		switch {
		case len(old) == len(target):
			change(n.Content[i], old[i], v)
		case i == len(old) || !reflect.DeepEqual(old[i], v):
			content = append(content, nodeOf(v))
			continue
		}
		content = append(content, n.Content[i])
		i++
	}
	n.Content = content
	if len(old) == 0 {
		unfold(n)
	}
}

// unfold makes a collection that is new or was empty a block collection.
func unfold(n *kyaml.Node) {
	if len(n.Content) > 0 {
		n.Style &^= kyaml.FlowStyle
		putAbove(n, n.Content[0])
	}
}

// nodeOf returns the tree of a value, with quotes where YAML 1.1 or 1.2 needs them.
func nodeOf(value any) *kyaml.Node {
	text, _ := yaml.JSONToYAML([]byte(compactJSON(value)))
	node, _ := kyaml.Parse(string(text)) // always valid YAML
	return node.YNode()
}

func compactJSON(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it was decoded from JSON
	return strings.TrimSuffix(out.String(), "\n")
}
