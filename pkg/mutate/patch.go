package mutate

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Operation is one operation of a JSON patch (RFC 6902). Only "add" and
// "remove" occur, and only the webhook's own label is ever removed.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"` // a JSON pointer (RFC 6901)
	Value any    `json:"value,omitempty"`
}

// Patch is applied in order.
type Patch []Operation

// JSON returns the patch as the API server takes it; nothing for an empty one.
func (p Patch) JSON() ([]byte, error) {
	if len(p) == 0 {
		return nil, nil
	}
	return json.Marshal([]Operation(p))
}

// add sets a member of an object, or inserts before an element of an array.
func (p *Patch) add(value any, path ...any) {
	*p = append(*p, Operation{Op: "add", Path: pointer(path...), Value: value})
}

// appendTo adds values at the end of the array at path, which now has length
// elements: an array that is not there is made, in one operation, as two that
// each make it would erase each other.
func appendTo[T any](p *Patch, length int, values []T, path ...any) {
	insertInto(p, length, length, values, path...)
}

// insertInto adds values before the element at index of an array of length.
func insertInto[T any](p *Patch, length, index int, values []T, path ...any) {
	switch {
	case len(values) == 0:
	case length == 0:
		p.add(values, path...)
	default:
		for i, v := range values {
			at := any(index + i)
			if index == length {
				at = "-"
			}
			p.add(v, append(path[:len(path):len(path)], at)...)
		}
	}
}

// setKey sets a key of a map of strings that now has length entries.
func (p *Patch) setKey(length int, key, value string, path ...any) {
	if length == 0 {
		p.add(map[string]string{key: value}, path...)
		return
	}
	p.add(value, append(path[:len(path):len(path)], key)...)
}

// fieldOf returns the path of a field of the container in its pod.
func fieldOf(c api.ContainerRef, elem ...any) []any {
	list := "containers"
	if c.Init {
		list = "initContainers"
	}
	return append([]any{"spec", list, c.Index}, elem...)
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer makes a JSON pointer of member names and indices.
func pointer(path ...any) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		switch p := p.(type) {
		case int:
			b.WriteString(strconv.Itoa(p))
		case string:
			_, _ = escape.WriteString(&b, p) // a Builder does not fail
		}
	}
	return b.String()
}
