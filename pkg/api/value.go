package api

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// FieldError reports an annotation or a field whose value is not allowed.
type FieldError struct {
	Field  string // the annotation's key or the field's path
	Value  string
	Detail string // what is wrong and what is allowed
}

// maxShownValue is how many characters of a value an error repeats.
const maxShownValue = 80

// Error returns the field, the value in quotes, and the detail.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: %s", e.Field, Shorten(e.Value, maxShownValue), e.Detail)
}

// valueOf returns the value of an annotation with one short value, and whether it exists. It returns
// a *FieldError and the zero value if parse returns an error, whose text states what is allowed, or
// if the value does not have the shape of the annotation.
func valueOf[T any](annotations map[string]string, key string, parse func(string) (T, error)) (value T, ok bool, err error) {
	text, ok := annotations[key]
	if !ok {
		return value, false, nil
	}
	if detail := checkLength(text, maxValue); detail != "" {
		return value, false, &FieldError{key, text, detail}
	}
	parsed, err := parse(text)
	if err != nil {
		return value, false, &FieldError{key, text, err.Error()}
	}
	if detail := checkShape(key, text); detail != "" {
		return value, false, &FieldError{key, text, detail}
	}
	return parsed, true, nil
}

// isTrue reads a value that is "true" or "false" by its shape.
func isTrue(s string) (bool, error) { return s == "true", nil }

// checkLength returns what is wrong with a value of more than most bytes, or "".
func checkLength(value string, most int) (detail string) {
	switch cut := validation.DNS1123SubdomainMaxLength + 1; { // how much of it caches keep: see truncate
	case len(value) <= most:
		return ""
	case len(value) == cut:
		return fmt.Sprintf("more than %d bytes: must be at most %d", cut-1, most)
	}
	return fmt.Sprintf("%d bytes: must be at most %d", len(value), most)
}

// checkList returns what is wrong with the length of a comma-separated list, or "". It does
// not check the entries.
func checkList(value string, most int) (detail string) {
	if detail := checkLength(value, most); detail != "" {
		return detail
	}
	return checkCount(value, MaxNames, "names")
}

// checkCount returns what is wrong with the number of entries of a comma-separated list, or "".
func checkCount(value string, most int, entries string) (detail string) {
	if n := strings.Count(value, ",") + 1; n > most {
		return fmt.Sprintf("%d %s: must be at most %d", n, entries, most)
	}
	return ""
}

func looksLikeIP(s string) bool {
	_, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return err == nil
}

// splitNames splits a comma-separated list and trims spaces.
func splitNames(value string) []string {
	names := strings.Split(value, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names
}

// hours formats a duration without zero minutes and seconds: 720h, not 720h0m0s.
func hours(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
