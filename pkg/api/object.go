package api

import (
	"encoding/json"
	"maps"
	"slices"
)

// object is a JSON object to which members are appended, in the format of encoding/json.
// Empty members are omitted.
type object struct{ data []byte }

// String returns the object.
func (o *object) String() string {
	if len(o.data) == 0 {
		return "{}"
	}
	return string(append(o.data, '}'))
}

// member begins a member. Names need no quoting.
func (o *object) member(name string) {
	start := byte(',')
	if len(o.data) == 0 {
		start = '{'
	}
	o.data = append(append(append(o.data, start, '"'), name...), '"', ':')
}

func (o *object) text(name, value string) {
	if value == "" {
		return
	}
	o.member(name)
	o.data = appendQuoted(o.data, value)
}

func (o *object) list(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.member(name)
	for i, v := range values {
		o.data = appendQuoted(append(o.data, "[,"[min(i, 1)]), v)
	}
	o.data = append(o.data, ']')
}

func (o *object) texts(name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	o.member(name)
	keys := slices.AppendSeq(make([]string, 0, len(values)), maps.Keys(values)) // most have one
	slices.Sort(keys)
	for i, key := range keys {
		o.data = appendQuoted(append(o.data, "{,"[min(i, 1)]), key)
		o.data = appendQuoted(append(o.data, ':'), values[key])
	}
	o.data = append(o.data, '}')
}

// appendQuoted appends a text as a JSON string. Most texts need no escape.
func appendQuoted(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil { // text always marshals
				panic(err)
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}
