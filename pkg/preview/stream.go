package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// byteOrderMark may precede the content of a document.
const byteOrderMark = "\ufeff"

// chunk is the text of one document in a stream.
type chunk struct {
	text []byte // with its separator
	json bool   // one of the JSON documents that a stream may begin with
}

// split divides a stream into documents as kubectl does: JSON documents one after the
// other, and then YAML documents. Where kubectl would ignore a part of the stream, split
// returns an error, which names the line. It stops when there are more than maxDocuments.
func split(data []byte) ([]chunk, error) {
	chunks := leadingJSON(data)
	n := 0
	for _, c := range chunks {
		n += len(c.text)
	}
	if len(chunks) > maxDocuments || len(chunks) > 0 && n == len(data) {
		return chunks, nil
	}
	s := splitter{line: 1 + bytes.Count(data[:n], []byte("\n")), chunks: chunks, own: len(chunks)}
	for rest := data[n:]; len(rest) > 0 && len(s.chunks) <= maxDocuments; s.line++ {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		if err := s.add(rest[:end]); err != nil {
			return nil, err
		}
		rest = rest[end:]
	}
	s.finish()
	return s.chunks, nil
}

// leadingJSON returns the JSON documents that the stream begins with, each with the space
// after it.
func leadingJSON(data []byte) []chunk {
	var chunks []chunk
	from := 0
	at := skipSpace(data, len(data)-len(bytes.TrimPrefix(data, []byte(byteOrderMark))))
	for at < len(data) && data[at] == '{' && len(chunks) <= maxDocuments {
		var raw json.RawMessage
		decoder := json.NewDecoder(bytes.NewReader(data[at:]))
		if decoder.Decode(&raw) != nil {
			break // YAML, or JSON with an error, which parsing it as YAML reports
		}
		at += int(decoder.InputOffset())
		next := skipSpace(data, at)
		end := next
		if next < len(data) && data[next] != '{' { // keep the indentation of YAML
			end = at + 1 + bytes.LastIndexByte(data[at:next], '\n')
		}
		chunks = append(chunks, chunk{text: data[from:end], json: true})
		from, at = end, next
	}
	return chunks
}

func skipSpace(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\t' || data[at] == '\r' || data[at] == '\n') {
		at++
	}
	return at
}

// splitter divides lines of YAML into documents.
type splitter struct {
	line   int
	chunks []chunk
	own    int    // how many of the chunks came before the YAML
	text   []byte // the document that is being read
	// directive is true if the document has a directive, and ended if it follows an end
	// marker, and there was no separator yet.
	directive, ended bool
	content          bool
}

// add reads a line.
func (s *splitter) add(line []byte) error {
	bare := bytes.TrimRight(bytes.TrimPrefix(line, []byte(byteOrderMark)), "\r\n \t")
	switch {
	case bytes.HasPrefix(bare, []byte("---")):
		if len(bare) > 3 && bare[3] != ' ' && bare[3] != '\t' {
			return fmt.Errorf(`line %d: %q: "---" must be followed by a space or the end of the line`, s.line, shorten(bare))
		}
		if !s.directive && !s.ended && len(s.text) > 0 {
			s.finish()
		}
		s.directive, s.ended, s.content = false, false, true
	case isEndMarker(bare):
		s.extend(line)
		s.finish()
		s.ended = true
		return nil
	case len(bytes.TrimSpace(bare)) == 0 || bytes.TrimSpace(bare)[0] == '#':
	case bare[0] == '%' && !s.content:
		s.directive = true
	case s.ended:
		return fmt.Errorf(`line %d: %q: follows the end of a document: must be "---", a directive or a comment`, s.line, shorten(bare))
	default:
		s.content = true
	}
	s.extend(line)
	return nil
}

func isEndMarker(line []byte) bool {
	return bytes.HasPrefix(line, []byte("...")) && (len(line) == 3 || line[3] == ' ' || line[3] == '\t')
}

// extend adds a line to the document. All lines are parts of one array, so that a document
// is a part of it too.
func (s *splitter) extend(line []byte) {
	if len(s.text) == 0 {
		s.text = line
		return
	}
	s.text = s.text[:len(s.text)+len(line)]
}

// finish ends the document that is being read.
func (s *splitter) finish() {
	if len(s.text) == 0 && len(s.chunks) > 0 {
		return
	}
	if last := len(s.chunks) - 1; s.ended && !s.content && last >= s.own { // comments after an end marker
		text := s.chunks[last].text
		s.chunks[last].text = text[:len(text)+len(s.text)]
	} else {
		s.chunks = append(s.chunks, chunk{text: s.text})
	}
	s.text, s.directive, s.ended, s.content = nil, false, false, false
}

// shorten returns the beginning of a line, for an error.
func shorten(line []byte) []byte {
	const most = 60
	if len(line) <= most {
		return line
	}
	n := most
	for n > 0 && !utf8.RuneStart(line[n]) {
		n--
	}
	return append(bytes.Clone(line[:n]), "..."...)
}
