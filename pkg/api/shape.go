package api

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// A Shape is the form that the value of an annotation must have. Every parser checks it with
// [checkShape]. The API server checks the same regular expressions: policy servingcert-annotations
// is rendered from [Shapes].
type Shape struct {
	// On are the places where the annotation is checked.
	On []Place `json:"on"`
	// MaxBytes is the largest size of the value.
	MaxBytes int `json:"maxBytes"`
	// MaxEntries is the largest number of entries of a comma-separated list, in which spaces
	// around entries are allowed, and Entries the word for them. 0: the value is not a list.
	MaxEntries int    `json:"maxEntries,omitempty"`
	Entries    string `json:"entries,omitempty"`
	// Rules are about the value, or about each entry of a list.
	Rules []Rule `json:"rules"`

	// explain, if not nil, returns what is wrong with some values in more detail than the rules, or "".
	explain func(value string) string
}

// A Rule is what a value, or an entry of a list, must match, or must not match.
type Rule struct {
	Pattern string `json:"pattern"`
	Not     bool   `json:"not,omitempty"`
	Detail  string `json:"detail"` // what is wrong and what is allowed

	compiled *regexp.Regexp
}

func must(pattern, detail string) Rule {
	return Rule{Pattern: pattern, Detail: detail, compiled: regexp.MustCompile(pattern)}
}

func mustNot(pattern, detail string) Rule {
	r := must(pattern, detail)
	r.Not = true
	return r
}

// Shapes returns the shapes of the annotations of Services, namespaces and pods, by their keys.
func Shapes() map[string]Shape {
	all := map[string]Shape{}
	for key, shape := range shapes {
		for _, place := range []Place{OnService, OnPod, OnNamespace} {
			if slices.Contains(place.Annotations(), key) {
				shape.On = append(shape.On, place)
			}
		}
		all[key] = shape
	}
	return all
}

// checkShape returns what is wrong with the value of an annotation and what is allowed, or "".
func checkShape(key, value string) (detail string) { return shapes[key].Check(value) }

// Check returns what is wrong with the value and what is allowed, or "".
func (s Shape) Check(value string) (detail string) {
	isList := s.MaxEntries > 0
	if isList {
		if detail := cmp.Or(checkLength(value, s.MaxBytes), checkCount(value, s.MaxEntries, s.Entries)); detail != "" {
			return detail
		}
	}
	if s.explain != nil {
		if detail := s.explain(value); detail != "" {
			return detail
		}
	}
	if !isList {
		if len(value) > s.MaxBytes {
			return s.Rules[0].Detail
		}
		return s.checkEntry(value)
	}
	for entry := range strings.SplitSeq(value, ",") {
		if detail := s.checkEntry(strings.TrimSpace(entry)); detail != "" {
			return detail
		}
	}
	return ""
}

func (s Shape) checkEntry(entry string) (detail string) {
	for _, r := range s.Rules {
		if r.compiled.MatchString(entry) == r.Not {
			return r.Detail
		}
	}
	return ""
}

// anyOf returns the shape of an annotation with one of the values.
func anyOf[T ~string](values ...T) Shape {
	return Shape{MaxBytes: maxValue, Rules: []Rule{must(`^(`+alternatives(values)+`)$`, oneOf("", values...))}}
}

func alternatives[T ~string](values []T) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(string(v))
	}
	return strings.Join(quoted, "|")
}
