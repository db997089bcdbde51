package preview

import (
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// block returns a value in YAML's block style, with keys in order.
func block(value any) string {
	out, _ := yaml.JSONToYAML([]byte(compactJSON(value))) // it is valid
	return string(out)
}

// indent puts spaces before each line that is not empty.
func indent(text string, columns int) string {
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		if strings.TrimSpace(l) != "" {
			lines[i] = strings.Repeat(" ", columns) + l
		}
	}
	return strings.Join(lines, "")
}

// inline returns a value on one line in block style, and whether that is possible.
func inline(value any) (string, bool) {
	switch value := value.(type) {
	case map[string]any:
		return "{}", len(value) == 0
	case []any:
		return "[]", len(value) == 0
	}
	return plain(value), true
}

// plain returns a scalar on one line, with quotes where it needs them.
func plain(value any) string {
	text := strings.TrimSuffix(block(value), "\n")
	if strings.Contains(text, "\n") {
		return compactJSON(value)
	}
	return text
}

// flow returns a value in YAML's flow style, on one line.
func flow(value any) string {
	switch value := value.(type) {
	case map[string]any:
		members := make([]string, 0, len(value))
		for _, name := range slices.Sorted(maps.Keys(value)) {
			members = append(members, flow(name)+": "+flow(value[name]))
		}
		return "{" + strings.Join(members, ", ") + "}"
	case []any:
		elements := make([]string, len(value))
		for i, v := range value {
			elements[i] = flow(v)
		}
		return "[" + strings.Join(elements, ", ") + "]"
	}
	if text := plain(value); !strings.ContainsAny(text, ",[]{}") || strings.ContainsAny(text[:1], `'"`) {
		return text
	}
	return compactJSON(value) // what is plain in a block need not be here
}
