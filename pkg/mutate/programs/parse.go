package programs

import (
	"bytes"
	"cmp"
	_ "embed" // for the table
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed programs.yaml
var builtin []byte

// Builtin returns the built-in table.
var Builtin = sync.OnceValue(func() Table {
	t, err := Parse(builtin)
	if err != nil { // a test parses it
		panic(err)
	}
	return t
})

// maxPrograms bounds the cost of a table, which is read whole at each start and change.
const maxPrograms = 1000

// maxEntries is the largest number of entries of a list or mapping of a program.
const maxEntries = 100

// maxSaid bounds the errors about a table, in bytes: they repeat its lines.
const maxSaid = 16 << 10

// Parse returns the table in the YAML document, a list of programs. The error lists each
// mistake with its line.
func Parse(data []byte) (Table, error) {
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return Table{}, nil
	} else if err != nil {
		return Table{}, fmt.Errorf("not YAML: %w", err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return Table{}, errors.New("more than one YAML document: must be one list of programs")
	}
	list := document.Content[0]
	if list.Kind != yaml.SequenceNode {
		return Table{}, fmt.Errorf("line %d: must be a list of programs", list.Line)
	}
	if len(list.Content) > maxPrograms {
		return Table{}, fmt.Errorf("%d programs: must be at most %d", len(list.Content), maxPrograms)
	}
	if mistakes := malformed(list, true); len(mistakes) > 0 {
		return Table{}, joined(mistakes)
	}
	var programs []Program
	strict := yaml.NewDecoder(bytes.NewReader(data))
	strict.KnownFields(true)
	if err := strict.Decode(&programs); err != nil {
		return Table{}, fieldErrors(err)
	}
	var mistakes []error
	for i := range programs {
		for _, m := range programs[i].mistakes() {
			mistakes = append(mistakes, fmt.Errorf("line %d: program %q: %s: %s", lineOf(list.Content[i], m.field), programs[i].Name, m.field, m.detail))
		}
	}
	mistakes = append(mistakes, twice(programs, list)...)
	if err := sameFiles(programs); err != nil {
		mistakes = append(mistakes, err)
	}
	if len(mistakes) > 0 {
		return Table{}, joined(mistakes)
	}
	return newTable(programs), nil
}

// joined returns the first of the mistakes, and the number of the others.
func joined(mistakes []error) error {
	var said int
	for i, m := range mistakes {
		if said += len(m.Error()) + 1; said > maxSaid/2 {
			first := append(slices.Clone(mistakes[:i]), fmt.Errorf("and %d more mistakes", len(mistakes)-i))
			return errors.Join(first...)
		}
	}
	return errors.Join(mistakes...)
}

// malformed returns an error for each missing or null value, which the decoder would drop,
// possibly with a program; and for each list or mapping with more than maxEntries, whose
// entries the decoder would compare with each other.
func malformed(node *yaml.Node, top bool) []error {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return []error{fmt.Errorf("line %d: must have a value", node.Line)}
	}
	n := len(node.Content)
	if node.Kind == yaml.MappingNode {
		n /= 2
	}
	if n > maxEntries && !top {
		return []error{fmt.Errorf("line %d: %d entries: must be at most %d", node.Line, n, maxEntries)}
	}
	var out []error
	for _, child := range node.Content {
		out = append(out, malformed(child, false)...)
	}
	return out
}

// wrongType matches the decoder's error about a value of another type.
var wrongType = regexp.MustCompile("^(line \\d+: )cannot unmarshal !!\\w+ (`.*` )?into (.*)$")

// kinds describes the Go types in YAML terms. Other types are texts.
var kinds = map[string]string{
	"programs.Program":    "a program, with fields such as program and images",
	"[]programs.Variable": "a list of variables, each with name and value",
	"programs.Variable":   "a variable, with name and value",
	"[]string":            "a list of texts",
	"map[string]string":   "texts by file name",
	"[]int32":             "a list of port numbers",
	"int32":               "a port number",
	"bool":                "true or false",
}

// fieldErrors rewrites the decoder's errors about Go types for people who write YAML.
func fieldErrors(err error) error {
	var types *yaml.TypeError
	if !errors.As(err, &types) {
		return fmt.Errorf("not a list of programs: %w", err)
	}
	var out []error
	for _, e := range types.Errors {
		if m := wrongType.FindStringSubmatch(e); m != nil {
			e = m[1] + m[2] + "must be " + cmp.Or(kinds[m[3]], "a text")
		}
		e = strings.ReplaceAll(e, "not found in type programs.Program", "is not a field of a program")
		e = strings.ReplaceAll(e, "not found in type programs.Variable", "is not a field of a variable: must be name or value")
		out = append(out, errors.New(e))
	}
	return joined(out)
}

// lineOf returns the line of a program's field, or of the program if it has no such field.
func lineOf(program *yaml.Node, field string) int {
	for pair := range slices.Chunk(program.Content, 2) { // keys and values
		if pair[0].Value == field {
			return pair[0].Line
		}
	}
	return program.Line
}

// twice returns errors about names, images and executables that two programs have.
func twice(programs []Program, list *yaml.Node) []error {
	var out []error
	for _, key := range []struct {
		field string
		of    func(*Program) []string
	}{
		{"program", func(p *Program) []string { return []string{p.Name} }},
		{"images", func(p *Program) []string { return p.Images }},
		{"executables", func(p *Program) []string { return p.Executables }},
	} {
		first := map[string]string{}
		for i := range programs {
			for _, v := range slices.Compact(slices.Sorted(slices.Values(key.of(&programs[i])))) {
				if other, taken := first[v]; taken {
					out = append(out, fmt.Errorf("line %d: program %q: %s: %q is also in program %q", lineOf(list.Content[i], key.field), programs[i].Name, key.field, v, other))
					continue
				}
				first[v] = programs[i].Name
			}
		}
	}
	return out
}
