package hostfiles

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// reader reads YAML strictly. It collects the errors, each with its line and field.
type reader struct{ errs []error }

// maxErrors is the maximum number of collected errors.
const maxErrors = 20

func (r *reader) fail(n *yaml.Node, at, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, fmt.Errorf("line %d: %s: %s", n.Line, at, fmt.Sprintf(format, args...)))
	}
}

func (r *reader) err() error { return errors.Join(r.errs...) }

// object reads a mapping, in which only the given fields are allowed. It returns those that are present.
func (r *reader) object(n *yaml.Node, at string, fields map[string]func(*yaml.Node, string)) (present map[string]bool) {
	present = map[string]bool{}
	if n.Kind != yaml.MappingNode {
		r.fail(n, at, "must be a mapping with %s", list(slices.Sorted(maps.Keys(fields))))
		return present
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, known := fields[key.Value]
		switch {
		case !known:
			r.fail(key, at, "%q: unknown field: must be one of %s", key.Value, list(slices.Sorted(maps.Keys(fields))))
		case present[key.Value]:
			r.fail(key, at, "%q: duplicate field", key.Value)
		default:
			read(value, at+"."+key.Value)
		}
		present[key.Value] = true
	}
	return present
}

// each reads a sequence of 1 to most elements.
func (r *reader) each(n *yaml.Node, at string, most int, read func(*yaml.Node, string)) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > most {
		r.fail(n, at, "must be a list of 1 to %d elements", most)
		return
	}
	for i, element := range n.Content {
		read(element, fmt.Sprintf("%s[%d]", at, i))
	}
}

// text reads a string. wrong returns what is allowed if a value is invalid, and "" otherwise.
func (r *reader) text(into *string, wrong func(string) string) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		if n.Kind != yaml.ScalarNode {
			r.fail(n, at, "must be a string")
			return
		}
		if reason := wrong(n.Value); reason != "" {
			r.fail(n, at, "%q: %s", n.Value, reason)
			return
		}
		*into = n.Value
	}
}

func (r *reader) oneOf(into *string, allowed ...string) func(*yaml.Node, string) {
	return r.text(into, func(s string) string {
		if slices.Contains(allowed, s) {
			return ""
		}
		return "must be one of " + list(allowed)
	})
}

func (r *reader) boolean(into *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		var s string
		r.oneOf(&s, "true", "false")(n, at)
		*into = s == "true"
	}
}

func (r *reader) number(into *int, least, most int) func(*yaml.Node, string) {
	var s string
	return func(n *yaml.Node, at string) {
		r.text(&s, func(s string) string {
			v, err := strconv.Atoi(s)
			if err != nil || v < least || v > most {
				return fmt.Sprintf("must be a number from %d to %d", least, most)
			}
			*into = v
			return ""
		})(n, at)
	}
}

func (r *reader) duration(into *time.Duration, least, most time.Duration) func(*yaml.Node, string) {
	var s string
	return func(n *yaml.Node, at string) {
		r.text(&s, func(s string) string {
			d, err := time.ParseDuration(s)
			if err != nil || d < least || d > most {
				return fmt.Sprintf("must be a duration from %s to %s", least, most)
			}
			*into = d
			return ""
		})(n, at)
	}
}

func list(all []string) string { return strings.Join(all, ", ") }
