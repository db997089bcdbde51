package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Document is one document of a manifest file.
type Document struct {
	file   string
	name   string // the file, and the number of the document in it
	first  bool   // of its file
	line   int    // of the first byte of body in the file
	lead   []byte // the separator, and the comments and empty lines after it
	body   []byte
	json   bool           // one of the JSON documents at the beginning of a stream
	object map[string]any // nil if there are only comments
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
	docs, err := split(ended(bytes.TrimPrefix(data, []byte(byteOrderMark))))
	if len(docs) > maxDocuments {
		return nil, fmt.Errorf("%s: more than %d documents", file, maxDocuments)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, %w", file, err)
	}
	line := 1
	for i := range docs {
		d := &docs[i]
		d.file, d.name, d.first = file, fmt.Sprintf("%s, document %d", file, i+1), i == 0
		d.line = line + bytes.Count(d.lead, []byte("\n"))
		line = d.line + bytes.Count(d.body, []byte("\n"))
		if d.object, err = d.decode(); err != nil {
			return nil, fmt.Errorf("%s: %s", d.name, oneLine(err))
		}
	}
	return docs, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// ended returns the text with a line break after the last line, as kubectl reads it. The
// line break matters if the text ends with a literal scalar.
func ended(text []byte) []byte {
	if len(text) == 0 || bytes.HasSuffix(text, []byte("\n")) {
		return text
	}
	return append(bytes.Clone(text), '\n')
}

// decode returns the object, or nil if there are only comments. Numbers are json.Number.
// As in kubectl, sigs.k8s.io/yaml interprets the YAML values.
func (d *Document) decode() (map[string]any, error) {
	raw := d.body
	if !d.json {
		if _, err := d.tree(); err != nil {
			return nil, err
		}
		var err error
		if raw, err = yaml.YAMLToJSON(d.body); err != nil {
			return nil, err
		}
	}
	value, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	if deeperThan(value, maxDepth) {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	switch value := value.(type) {
	case nil:
		return nil, nil // only comments
	case map[string]any:
		return value, nil
	}
	return nil, errors.New("not an object: must be a mapping with apiVersion and kind")
}

func decodeJSON(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

func deeperThan(value any, levels int) bool {
	if levels == 0 {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if deeperThan(v, levels-1) {
				return true
			}
		}
	case []any:
		for _, v := range value {
			if deeperThan(v, levels-1) {
				return true
			}
		}
	}
	return false
}

// Name returns the file and the number of the document in it.
func (d Document) Name() string { return d.name }

// File returns the name of the file that the document is in.
func (d Document) File() string { return d.file }

// Bytes returns the document without its separator.
func (d Document) Bytes() []byte { return d.body }

// Join returns the documents as one stream.
func Join(docs []Document) []byte {
	files := 0
	for _, d := range docs {
		if d.first {
			files++
		}
	}
	var out bytes.Buffer
	for i, d := range docs {
		apart := i > 0 && (d.first || files > 1 && d.json) // without a separator, kubectl reads no JSON after YAML
		if apart && !bytes.HasPrefix(d.lead, []byte("---")) {
			if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
				out.WriteByte('\n')
			}
			out.WriteString("---\n")
		}
		out.Write(d.lead)
		out.Write(d.body)
	}
	return out.Bytes()
}
