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
	errEdit    = errors.New("the change cannot be written into this text: remove its anchors, aliases and tags")
	errMerge   = fmt.Errorf("the change cannot be written into this text: more than %d values, and merge keys: remove its merge keys", maxMerged)
	errComment = errors.New("the change cannot be written into this text: a comment would be lost: move it to a line of its own")
)

// edited returns the document with another object. Values, comments and the order of keys
// stay where the objects are equal; indentation, empty lines and where long text is broken
// are up to kyaml, and JSON is as encoding/json writes it.
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
		_ = json.Indent(&body, []byte(compactJSON(target)), "", "  ") // it is valid
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
		if values > maxMerged { // kyaml compares each key of a mapping with each
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

// endMarker matches the end of a document, before which kyaml loses comments.
var endMarker = regexp.MustCompile(`(?m)^\.\.\.`)

// hashes returns how many "#" are in the text of a tree. Each comment has one.
func hashes(n *kyaml.Node) int {
	total := strings.Count(n.HeadComment+n.LineComment+n.FootComment+n.Value+n.Anchor, "#")
	for _, c := range n.Content {
		total += hashes(c)
	}
	return total
}

// expand replaces aliases by what they refer to, because a change of one place must not
// change others. It returns how many values the tree has, and whether some are merge keys.
// How large it can become was checked when the document was parsed. Comments are moved to where
// kyaml writes them.
func expand(n *kyaml.Node) (values int, merges bool) {
	n.Anchor = ""
	for i, c := range n.Content {
		if c.Kind == kyaml.AliasNode {
			value := kyaml.CopyYNode(c.Alias) // which stands before it, and has no aliases any more
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
			putAbove(n.Content[i-1], n.Content[i-1]) // the comment after an anchor of the mapping is that of the first key
		}
	}
	return values + 1, merges
}

// onLines reports whether a value is a collection with elements on lines of their own.
func onLines(n *kyaml.Node) bool { return len(n.Content) > 0 && n.Style&kyaml.FlowStyle == 0 }

// putAbove puts the comment that is on the line of a node above another.
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
	made := nodeOf(target)
	made.HeadComment, made.LineComment, made.FootComment = n.HeadComment, n.LineComment, n.FootComment
	*n = *made
	unfold(n)
}

func changeMapping(n *kyaml.Node, old, target map[string]any) {
	done := map[string]bool{}
	var content []*kyaml.Node
	for i := len(n.Content) - 2; i >= 0; i -= 2 { // of members with one name the last counts
		name, value := n.Content[i].Value, n.Content[i+1]
		before, had := old[name] // not if the key is text in YAML 1.2 alone, such as yes
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

// unfold writes a collection that was empty, or no collection, on lines of its own.
func unfold(n *kyaml.Node) {
	if len(n.Content) > 0 {
		n.Style &^= kyaml.FlowStyle
		putAbove(n, n.Content[0])
	}
}

// nodeOf returns the tree of a value. It has quotes where YAML 1.1 or 1.2 needs them.
func nodeOf(value any) *kyaml.Node {
	text, _ := yaml.JSONToYAML([]byte(compactJSON(value)))
	node, _ := kyaml.Parse(string(text)) // it was written here
	return node.YNode()
}

func compactJSON(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it was decoded from JSON
	return strings.TrimSuffix(out.String(), "\n")
}
