// Package jsonpatch builds JSON patches (RFC 6902) for pods, whose lists may be missing or empty. It
// is pure.
//
//	var patch jsonpatch.Patch
//	jsonpatch.Append(&patch, jsonpatch.Field(container, "args"), len(container.Args), []string{"--tls"})
package jsonpatch

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Operation is one operation of a JSON patch (RFC 6902). Only "add" and "remove" occur,
// and "remove" only for what the webhook has added.
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

// Add appends an operation that sets a Member of an object, or inserts before an element
// of an array.
func (p *Patch) Add(path string, value any) {
	*p = append(*p, Operation{Op: "add", Path: path, Value: value})
}

// Append appends values to the array at path, which has length elements. An array that
// does not exist is created in one operation: a second one would replace it.
func Append[T any](p *Patch, path string, length int, values []T) {
	Insert(p, path, length, length, values)
}

// Insert inserts values before the element at index of an array of length elements.
func Insert[T any](p *Patch, path string, length, index int, values []T) {
	switch {
	case len(values) == 0:
	case length == 0:
		p.Add(path, values)
	case index == length:
		end := path + "/-"
		for _, v := range values {
			p.Add(end, v)
		}
	default:
		for i, v := range values {
			p.Add(path+"/"+strconv.Itoa(index+i), v)
		}
	}
}

// Grown returns the length of the array at path after the operations, if it was length before.
func (p Patch) Grown(path string, length int) int {
	for _, o := range p {
		switch {
		case o.Path == path:
			length = reflect.ValueOf(o.Value).Len()
		case strings.HasPrefix(o.Path, path+"/"):
			length++
		}
	}
	return length
}

// SetKey sets a key of a map of strings that has length entries.
func (p *Patch) SetKey(path string, length int, key, value string) {
	if length == 0 {
		p.Add(path, map[string]string{key: value})
		return
	}
	p.Add(Member(path, key), value)
}

// Field returns the JSON pointer to a field of the container in its pod.
func Field(c api.ContainerRef, field string) string {
	list := "/spec/containers/"
	if c.Init {
		list = "/spec/initContainers/"
	}
	return list + strconv.Itoa(c.Index) + "/" + field
}

// The JSON pointers (RFC 6901) to the fields of a pod outside its containers.
const (
	Volumes          = "/spec/volumes"
	InitContainers   = "/spec/initContainers"
	ImagePullSecrets = "/spec/imagePullSecrets"
	HostAliases      = "/spec/hostAliases"
	SecurityContext  = "/spec/securityContext"
	Labels           = "/metadata/labels"
	Annotations      = "/metadata/annotations"
)

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// Member returns the JSON pointer (RFC 6901, 3) to a Member of the object at path.
func Member(path, name string) string { return path + "/" + escape.Replace(name) }
