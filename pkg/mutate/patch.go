package mutate

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Operation is one operation of a JSON patch (RFC 6902). Only "add" and "remove" occur,
// and "remove" only for the webhook's own label.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"` // a JSON pointer (RFC 6901)
	Value any    `json:"value,omitempty"`
}

// Patch is a list of operations, to be applied in order.
type Patch []Operation

// JSON returns the patch in the format of the API server, or nil if it is empty.
func (p Patch) JSON() ([]byte, error) {
	if len(p) == 0 {
		return nil, nil
	}
	return json.Marshal([]Operation(p))
}

// add appends an operation that sets a member of an object, or inserts before an element
// of an array.
func (p *Patch) add(value any, path ...any) {
	*p = append(*p, Operation{Op: "add", Path: pointer(path...), Value: value})
}

// appendTo appends values to the array at path, which has length elements. An array that
// does not exist is created in one operation: a second one would replace it.
func appendTo[T any](p *Patch, length int, values []T, path ...any) {
	insertInto(p, length, length, values, path...)
}

// insertInto inserts values before the element at index of an array of length elements.
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

// setKeys sets keys of a map of strings that has length entries.
func (p *Patch) setKeys(length int, values map[string]string, path ...any) {
	switch {
	case len(values) == 0:
	case length == 0:
		p.add(values, path...)
	default:
		for _, key := range slices.Sorted(maps.Keys(values)) {
			p.add(values[key], append(path[:len(path):len(path)], key)...)
		}
	}
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

// pointer returns the JSON pointer (RFC 6901) to a path of member names and indices.
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
