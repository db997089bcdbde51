package mutate

import (
	"encoding/json"
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
func (p *Patch) add(path string, value any) {
	*p = append(*p, Operation{Op: "add", Path: path, Value: value})
}

// appendTo appends values to the array at path, which has length elements. An array that
// does not exist is created in one operation: a second one would replace it.
func appendTo[T any](p *Patch, path string, length int, values []T) {
	insertInto(p, path, length, length, values)
}

// insertInto inserts values before the element at index of an array of length elements.
func insertInto[T any](p *Patch, path string, length, index int, values []T) {
	switch {
	case len(values) == 0:
	case length == 0:
		p.add(path, values)
	case index == length:
		end := path + "/-"
		for _, v := range values {
			p.add(end, v)
		}
	default:
		for i, v := range values {
			p.add(path+"/"+strconv.Itoa(index+i), v)
		}
	}
}

// setKey sets a key of a map of strings that has length entries.
func (p *Patch) setKey(path string, length int, key, value string) {
	if length == 0 {
		p.add(path, map[string]string{key: value})
		return
	}
	p.add(member(path, key), value)
}

// fieldOf returns the JSON pointer to a field of the container in its pod.
func fieldOf(c api.ContainerRef, field string) string {
	list := "/spec/containers/"
	if c.Init {
		list = "/spec/initContainers/"
	}
	return list + strconv.Itoa(c.Index) + "/" + field
}

// The JSON pointers (RFC 6901) to the fields of a pod beside its containers.
const (
	pathVolumes     = "/spec/volumes"
	pathLabels      = "/metadata/labels"
	pathAnnotations = "/metadata/annotations"
)

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// member returns the JSON pointer (RFC 6901, 3) to a member of the object at path.
func member(path, name string) string { return path + "/" + escape.Replace(name) }
