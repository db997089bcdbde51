package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one value of the chart, or a group of them.
type value struct {
	key         string
	path        string         // such as signer.image.tag
	description string         // in Markdown
	children    []value        // of a group
	def         any            // the default
	schema      map[string]any // type and "@schema"; empty for a group
}

// durationSchema is the meaning of "@schema duration": a Go duration, or null.
var durationSchema = map[string]any{
	"type":    []any{"string", "null"},
	"pattern": `^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$`,
}

// parseValues parses values.yaml. Each key must be described by the comment above it or, for other
// processes, by that of the same key of signer.
func parseValues(text []byte) ([]value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("must be a mapping")
	}
	p := parser{lines: strings.Split(string(text), "\n"), known: map[string]value{}}
	return p.group(document.Content[0], "")
}

type parser struct {
	lines []string
	known map[string]value // of signer, by their paths in it
}

func (p parser) group(mapping *yaml.Node, prefix string) ([]value, error) {
	var values []value
	for i := 0; i < len(mapping.Content); i += 2 {
		v, err := p.value(mapping.Content[i], mapping.Content[i+1], prefix)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", mapping.Content[i].Line, err)
		}
		values = append(values, v)
	}
	return values, nil
}

func (p parser) value(key, node *yaml.Node, prefix string) (value, error) {
	v := value{key: key.Value, path: prefix + key.Value}
	description, said, err := p.comment(key.Line)
	if err != nil {
		return v, fmt.Errorf("%s: %w", v.path, err)
	}
	v.description, v.schema = description, said
	process, below, _ := strings.Cut(v.path, ".")
	if v.description == "" && slices.Contains([]string{"trust", "rotator", "webhook"}, process) {
		v.description, v.schema = p.known[below].description, p.known[below].schema
	}
	if v.description == "" && prefix != "" && !strings.HasSuffix(v.path, ".repository") {
		return v, fmt.Errorf("%s: must have a comment that describes it", v.path)
	}
	if process == "signer" {
		p.known[below] = v
	}
	if _, isLeaf := v.schema["additionalProperties"]; node.Kind == yaml.MappingNode && !isLeaf {
		v.schema = nil
		v.children, err = p.group(node, v.path+".")
		return v, err
	}
	if err := node.Decode(&v.def); err != nil {
		return v, err
	}
	return v, v.complete(node)
}

// complete adds the type of the default to the schema, unless it has one.
func (v *value) complete(node *yaml.Node) error {
	types := map[string]string{"!!str": "string", "!!int": "integer", "!!bool": "boolean", "!!seq": "array", "!!map": "object"}
	schema := map[string]any{}
	for k, s := range v.schema {
		schema[k] = s
	}
	if schema["type"] == nil {
		t, found := types[node.ShortTag()]
		if !found {
			return fmt.Errorf("%s: the default has no type: set it with @schema", v.path)
		}
		schema["type"] = t
	}
	v.schema = schema
	return nil
}

const schemaMark = "@schema "

// comment returns the text of the comment above a line, and its additions to the schema.
func (p parser) comment(line int) (string, map[string]any, error) {
	var words []string
	schema := map[string]any{}
	first := line - 1 // lines are counted from 1
	for first > 0 && strings.HasPrefix(strings.TrimSpace(p.lines[first-1]), "#") {
		first--
	}
	for _, l := range p.lines[first : line-1] {
		l = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(l), "#"))
		said, isSchema := strings.CutPrefix(l, schemaMark)
		switch {
		case isSchema && said == "duration":
			schema = durationSchema
		case isSchema:
			if err := json.Unmarshal([]byte(said), &schema); err != nil {
				return "", nil, fmt.Errorf("@schema: %w", err)
			}
		default:
			words = append(words, l)
		}
	}
	return strings.Join(words, " "), schema, nil
}
