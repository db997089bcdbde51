package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Document is one document of a manifest file.
type Document struct {
	file   string
	line   int    // of its first byte in the file
	name   string // the file, and the number of the document in it
	first  bool   // of its file
	chunk         // the text, byte for byte
	object map[string]any
}

// Parse splits a file into documents. Every document that kubectl would read is returned.
// If a part of the file cannot be read, or a limit is exceeded, Parse returns an error
// that names the document or the line.
func Parse(file string, data []byte) ([]Document, error) {
	if len(data) > MaxInput {
		return nil, fmt.Errorf("%s: larger than %d MiB", file, MaxInput>>20)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%s: not UTF-8: must be YAML or JSON in UTF-8", file)
	}
	chunks, err := split(data)
	if len(chunks) > maxDocuments {
		return nil, fmt.Errorf("%s: more than %d documents", file, maxDocuments)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %w", file, err)
	}
	docs := make([]Document, len(chunks))
	line := 1
	for i, c := range chunks {
		doc := Document{file: file, line: line, name: fmt.Sprintf("%s, document %d", file, i+1), first: i == 0, chunk: c}
		line += bytes.Count(c.text, []byte("\n"))
		if doc.object, err = c.decode(); err != nil {
			return nil, fmt.Errorf("%s: %s", doc.name, oneLine(err))
		}
		docs[i] = doc
	}
	return docs, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// decode returns the object, or nil if there are only comments. Numbers are json.Number.
// What a YAML value means is decided as in kubectl, by sigs.k8s.io/yaml.
func (c chunk) decode() (map[string]any, error) {
	raw := c.text[c.begin():]
	if !c.json {
		if _, err := c.nodes(); err != nil {
			return nil, err
		}
		var err error
		if raw, err = yaml.YAMLToJSON(ended(withoutVersion(raw))); err != nil {
			return nil, err
		}
	}
	value, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	if c.json && deeperThan(value, maxDepth) {
		return nil, errDepth
	}
	switch value := value.(type) {
	case nil:
		return nil, nil // nothing but comments
	case map[string]any:
		return value, nil
	}
	return nil, errors.New("not an object: must be a mapping with apiVersion and kind")
}

// ended returns the text with a line break after the last line, as kubectl reads it. It
// counts if a literal scalar ends there.
func ended(text []byte) []byte {
	if bytes.HasSuffix(text, []byte("\n")) {
		return text
	}
	return append(bytes.Clone(text), '\n')
}

func decodeJSON(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

var errDepth = fmt.Errorf("nested more than %d levels deep", maxDepth)

func deeperThan(value any, most int) bool {
	if most == 0 {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if deeperThan(v, most-1) {
				return true
			}
		}
	case []any:
		for _, v := range value {
			if deeperThan(v, most-1) {
				return true
			}
		}
	}
	return false
}

// begin returns where the text begins that a parser reads: after a byte order mark, at the
// beginning or after the separator.
func (c chunk) begin() int {
	if bytes.HasPrefix(c.text, []byte(byteOrderMark)) {
		return len(byteOrderMark)
	}
	if lead := c.lead(); bytes.HasPrefix(c.text[lead:], []byte(byteOrderMark)) {
		return lead + len(byteOrderMark)
	}
	return 0
}

// separator matches what is before the content of a document, if its separator has no
// content itself.
var separator = regexp.MustCompile(`^(\x{feff}?([ \t]*(#.*)?\r?\n|%.*\n)*---([ \t]+#.*|[ \t]*)\r?(\n|$))?([ \t]*(#.*)?\r?\n)*`)

// lead returns how many bytes the separator and the comments after it have.
func (c chunk) lead() int { return len(separator.Find(c.text)) }

// version matches a directive that says which version of YAML the document is written in.
// The parsers refuse all but 1.1, whose rules are those of kubectl for every version.
var version = regexp.MustCompile(`(?m)^%(YAML[ \t]+1\.\d)`)

var directive = regexp.MustCompile(`(?m)^%`)

func withoutVersion(text []byte) []byte {
	head := separator.Find(text)
	if len(head) == 0 && bytes.HasPrefix(text, []byte("%")) {
		head = text[:max(0, bytes.Index(text, []byte("\n---")))]
	}
	if !bytes.Contains(head, []byte("%YAML")) {
		return text
	}
	return append(version.ReplaceAll(head, []byte("#$1")), text[len(head):]...)
}

// nodes parses the text as YAML and returns the node of the document, or nil if there is
// nothing but comments.
func (c chunk) nodes() (*yamlv3.Node, error) {
	decoder := yamlv3.NewDecoder(bytes.NewReader(withoutVersion(c.text[c.begin():])))
	var root, more yamlv3.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return nil, errors.New(`holds more than one YAML document: each must begin with a line "---"`)
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	size := sizes{}
	if _, err := size.of(&root, 0); err != nil {
		return nil, err
	}
	return &root, nil
}

// sizes are how many values anchored nodes have with their aliases replaced.
type sizes map[*yamlv3.Node]int

func (s sizes) of(n *yamlv3.Node, depth int) (int, error) {
	if depth > maxDepth {
		return 0, errDepth
	}
	if n.Kind == yamlv3.AliasNode {
		size, ok := s[n.Alias]
		if !ok {
			return 0, fmt.Errorf("line %d: alias *%s: refers to a value that contains it", n.Line, n.Value)
		}
		return size, nil
	}
	total := 1
	for _, c := range n.Content {
		size, err := s.of(c, depth+1)
		if err != nil {
			return 0, err
		}
		total += size
		if len(s) > 0 && total > maxExpanded {
			return 0, fmt.Errorf("aliases expand it to more than %d values", maxExpanded)
		}
	}
	if n.Anchor != "" {
		s[n] = total
	}
	return total, nil
}

// Name returns the file and the number of the document in it.
func (d Document) Name() string { return d.name }

// Bytes returns the document without its separator.
func (d Document) Bytes() []byte { return d.text[d.lead():] }

// Join returns the documents as one stream: the bytes that were parsed, if there is one
// file and none of its documents has changed.
func Join(docs []Document) []byte {
	files := 0
	for _, d := range docs {
		if d.first {
			files++
		}
	}
	var out bytes.Buffer
	for i, d := range docs {
		apart := i > 0 && (d.first || files > 1 && d.json) // kubectl reads no JSON after YAML without it
		if apart && out.Len() > 0 {
			if out.Bytes()[out.Len()-1] != '\n' {
				out.WriteByte('\n')
			}
			switch text := bytes.TrimPrefix(d.text, []byte(byteOrderMark)); {
			case directive.Match(text[:d.lead()]), bytes.HasPrefix(text, []byte("%")):
				out.WriteString("...\n")
			case !bytes.HasPrefix(text, []byte("---")):
				out.WriteString("---\n")
			}
		}
		out.Write(d.text)
	}
	return out.Bytes()
}
