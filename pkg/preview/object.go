package preview

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// object is one object of a document: the document itself, or an item of a List.
type object struct {
	apiVersion, kind string
	content          map[string]any
	at               path // in the document
}

// path is a list of the names of members (string) and the indices of elements (int).
type path []any

// String returns the path, such as spec.containers[0].image.
func (p path) String() string {
	var b strings.Builder
	for i, elem := range p {
		switch elem := elem.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(elem) + "]")
		case string:
			switch {
			case strings.ContainsAny(elem, ".[] ") || elem == "":
				b.WriteString("[" + strconv.Quote(elem) + "]")
			case i > 0:
				b.WriteString("." + elem)
			default:
				b.WriteString(elem)
			}
		}
	}
	return b.String()
}

// with returns the path of a part. It does not share memory with p.
func (p path) with(elems ...any) path { return append(p[:len(p):len(p)], elems...) }

// outcome returns the outcome of an object, with a problem if err is not nil.
func (o object) outcome(namespace string, err error) Outcome {
	out := Outcome{Kind: o.kind, Namespace: namespace, Problem: err, At: o.at}
	if out.Name, _ = dig(o.content, "metadata", "name").(string); out.Name == "" {
		prefix, _ := dig(o.content, "metadata", "generateName").(string)
		out.Name = prefix + "*"
	}
	if ns, _ := dig(o.content, "metadata", "namespace").(string); ns != "" {
		out.Namespace = ns
	}
	return out
}

// objectsOf returns the objects of a document. As in kubectl, an object with items is a List,
// and the kind of a List such as PodList is the default kind of its items.
func objectsOf(content map[string]any, namespace string) (found []object, problems []Outcome) {
	var add func(o object, lists int)
	add = func(o object, lists int) {
		items, isList := o.content["items"].([]any)
		if !isList {
			found = append(found, o)
			return
		}
		if lists == MaxLists {
			problems = append(problems, o.outcome(namespace, fmt.Errorf("%v: Lists are nested more than %d deep", o.at, MaxLists)))
			return
		}
		for i, item := range items {
			at := o.at.with("items", i)
			c, ok := item.(map[string]any)
			if !ok {
				problems = append(problems, o.outcome(namespace, fmt.Errorf("%v: %s: must be an object", at, quoted(item))))
				continue
			}
			next := objectOf(c, at)
			if kind := strings.TrimSuffix(o.kind, "List"); next.kind == "" && kind != "" && kind != o.kind {
				next.kind, next.apiVersion = kind, o.apiVersion
			}
			add(next, lists+1)
		}
	}
	add(objectOf(content, nil), 0)
	return found, problems
}

func objectOf(content map[string]any, at path) object {
	o := object{content: content, at: at}
	o.apiVersion, _ = content["apiVersion"].(string)
	o.kind, _ = content["kind"].(string)
	return o
}

// quoted returns a value for an error.
func quoted(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return strconv.Quote(string(shorten([]byte(value))))
	}
	return compactJSON(value)
}

// pathOf returns the path of the field. encoding/json escapes names as in a JSON Pointer (RFC 6901), but separates
// them by dots.
func pathOf(wrong *json.UnmarshalTypeError) string {
	return unescaped.Replace(elements.ReplaceAllString(wrong.Field, "[$1]"))
}

var (
	elements  = regexp.MustCompile(`\.(\d+)\b`)
	unescaped = strings.NewReplacer("~1", "/", "~0", "~")
)

// fieldError returns an error of json.Unmarshal with the path of the field below prefix.
func fieldError(err error, prefix string) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: %s: must be %s", strings.TrimPrefix(prefix+"."+pathOf(wrong), "."), article(wrong.Value), article(wrong.Type.Kind().String()))
	}
	if prefix == "" {
		return err
	}
	return fmt.Errorf("%s: %w", prefix, err)
}

// article returns a type of JSON or Go as a noun with an article.
func article(name string) string {
	switch name {
	case "slice":
		return "a list"
	case "array":
		return "a list"
	case "struct", "map", "object":
		return "an object"
	case "bool":
		return "true or false"
	case "int", "int32", "int64":
		return "an integer"
	}
	return "a " + name
}

// dig returns the value at a path of members, or nil.
func dig(object map[string]any, path ...string) any {
	var value any = object
	for _, p := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[p]
	}
	return value
}

// clone returns a deep copy of a JSON value.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for k, v := range value {
			out[k] = clone(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = clone(v)
		}
		return out
	}
	return value
}

// set replaces the value at an existing path. At the empty path, which is the document's
// object, it sets the members of the value.
func set(document map[string]any, at path, value any) {
	if len(at) == 0 {
		members, _ := value.(map[string]any)
		for name, v := range members { // a patch removes no members of a pod
			document[name] = v
		}
		return
	}
	var parent any = document
	for i, elem := range at {
		switch elem := elem.(type) {
		case string:
			m, _ := parent.(map[string]any)
			if i == len(at)-1 {
				m[elem] = value
				return
			}
			parent = m[elem]
		case int:
			list, _ := parent.([]any)
			if i == len(at)-1 {
				list[elem] = value
				return
			}
			parent = list[elem]
		}
	}
}
