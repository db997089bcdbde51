package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"
)

// Document is one document of a manifest file.
type Document struct {
	name   string // the file, and the number of the document in it
	lead   []byte // the separator line and the comments before the content
	body   []byte // the content, byte for byte
	object map[string]any
}

// separator matches a line that begins a document (YAML 1.2, 9.1.1).
var separator = regexp.MustCompile(`(?m)^---([ \t]+#.*|[ \t]*)\r?$\n?`)

// leading matches what may precede the content of a document.
var leading = regexp.MustCompile(`^([ \t]*(#.*)?\r?\n)*`)

// Parse splits a file into documents. An error names the document that is not valid YAML
// or not an object.
func Parse(file string, data []byte) ([]Document, error) {
	var docs []Document
	starts := separator.FindAllIndex(data, -1)
	if len(starts) == 0 || starts[0][0] > 0 {
		starts = append([][]int{{0, 0}}, starts...)
	}
	for i, s := range starts {
		end := len(data)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		body := data[s[1]:end]
		n := len(leading.Find(body))
		doc := Document{
			name: fmt.Sprintf("%s, document %d", file, i+1),
			lead: data[s[0] : s[1]+n], body: body[n:],
		}
		if err := doc.decode(); err != nil {
			return nil, fmt.Errorf("%s: %w", doc.name, err)
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// decode parses the body into the object, which is nil if there are only comments.
func (d *Document) decode() error {
	raw, err := yaml.YAMLToJSON(d.body)
	if err != nil {
		return err
	}
	if string(raw) == "null" {
		return nil // nothing but comments
	}
	if err := json.Unmarshal(raw, &d.object); err != nil {
		return fmt.Errorf("not an object: %w", err)
	}
	return nil
}

// isJSON reports whether the document was written in JSON.
func (d *Document) isJSON() bool { return bytes.HasPrefix(d.body, []byte("{")) }

// encode writes an object in the document's own format.
func (d *Document) encode(object []byte) ([]byte, error) {
	if !d.isJSON() {
		return yaml.JSONToYAML(object)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, object, "", "    "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Join returns the documents as one file: the bytes that were parsed, if none has
// changed.
func Join(docs []Document) []byte {
	var out bytes.Buffer
	for _, d := range docs {
		if out.Len() > 0 && out.Bytes()[out.Len()-1] != '\n' {
			out.WriteByte('\n')
		}
		if out.Len() > 0 && !bytes.HasPrefix(d.lead, []byte("---")) {
			out.WriteString("---\n") // the first document of another file
		}
		out.Write(d.lead)
		out.Write(d.body)
	}
	return out.Bytes()
}

// Name returns the file and the number of the document in it.
func (d Document) Name() string { return d.name }

// Bytes returns the document without its separator.
func (d Document) Bytes() []byte { return d.body }

// Normal returns the document's content in the format of a changed document, so that a
// diff between the two shows only changes of content.
func (d Document) Normal() ([]byte, error) {
	object, err := json.Marshal(d.object)
	if err != nil {
		return nil, err
	}
	return d.encode(object)
}
