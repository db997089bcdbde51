package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"
)

const byteOrderMark = "\ufeff"

// commentPattern matches a comment. Five characters end it (YAML 1.1, 5.4).
const commentPattern = `(#[^\n\r\x{85}\x{2028}\x{2029}]*)`

var (
	separator = regexp.MustCompile(`^---([ \t]+` + commentPattern + `?)?\r?\n$`)
	// lead matches the separator, comments and empty lines before the content of a document.
	lead = regexp.MustCompile(`^(---.*\n)?([ \t]*` + commentPattern + `?\r?\n)*`)
)

// split divides a stream, whose last line ends with a line break, into documents as kubectl
// does: JSON documents one after the other, and then YAML documents, each of which begins at
// a line "---". It stops when there are more than maxDocuments.
func split(data []byte) ([]Document, error) {
	docs := leadingJSON(data)
	at := 0
	for _, d := range docs {
		at += len(d.body)
	}
	from := at
	add := func(end int) {
		text := data[from:end]
		n := len(lead.Find(text))
		if bytes.HasPrefix(text[n:], []byte(byteOrderMark)) { // after a comment, it would not be a byte order mark
			n = len(separator.Find(text[:bytes.IndexByte(text, '\n')+1]))
		}
		docs = append(docs, Document{lead: text[:n], body: text[n:]})
		from = end
	}
	for number := 1 + bytes.Count(data[:at], []byte("\n")); at < len(data) && len(docs) <= maxDocuments; number++ {
		line := data[at : at+1+bytes.IndexByte(data[at:], '\n')]
		if bytes.HasPrefix(line, []byte("---")) {
			if !separator.Match(line) {
				return nil, fmt.Errorf(`line %d: %q: begins with "---": only a space and a comment may follow`, number, shorten(bytes.TrimSpace(line)))
			}
			if at > from {
				add(at)
			}
		}
		at += len(line)
	}
	if from < len(data) || len(docs) == 0 {
		add(len(data))
	}
	return docs, nil
}

// leadingJSON returns the JSON documents at the beginning of the stream, each with the space
// after it.
func leadingJSON(data []byte) []Document {
	var docs []Document
	from := 0
	at := skipSpace(data, 0)
	for at < len(data) && data[at] == '{' && len(docs) <= maxDocuments {
		var raw json.RawMessage
		decoder := json.NewDecoder(bytes.NewReader(data[at:]))
		if decoder.Decode(&raw) != nil {
			break // YAML, or invalid JSON, which the YAML parser reports
		}
		at += int(decoder.InputOffset())
		next := skipSpace(data, at)
		end := next
		if next < len(data) && data[next] != '{' { // keep the indentation of YAML
			end = at + 1 + bytes.LastIndexByte(data[at:next], '\n')
		}
		docs = append(docs, Document{body: data[from:end], json: true})
		from, at = end, next
	}
	return docs
}

func skipSpace(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n') {
		at++
	}
	return at
}

// shorten returns the beginning of a line, for an error.
func shorten(line []byte) []byte {
	const limit = 60
	if len(line) <= limit {
		return line
	}
	n := limit
	for n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	return append(bytes.Clone(line[:n]), "..."...)
}
