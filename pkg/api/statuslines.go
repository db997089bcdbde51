package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxStatusLines bounds a list in a ConfigMap, in bytes: a ConfigMap may hold 1 MiB.
const maxStatusLines = 900 << 10

// statusRoom returns the first items for whose lines a ConfigMap has room.
func statusRoom[T any](items []T) (shown []T, err error) {
	size := 0
	for i, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if size += len(line) + 1; size > maxStatusLines {
			break
		}
		shown = append(shown, item)
	}
	return shown, nil
}

// statusLines returns each item in JSON in a line of its own.
func statusLines[T any](items []T) (string, error) {
	var list strings.Builder
	lines := json.NewEncoder(&list)
	for i, item := range items {
		if err := lines.Encode(item); err != nil {
			return "", fmt.Errorf("item %d: %w", i, err)
		}
	}
	return list.String(), nil
}

// parseStatusLines reads such lines, and how many items there are, which may be more than lines. An error
// names the key, the line and what is wrong; what says what a line is.
func parseStatusLines[T any](data map[string]string, key, countKey, what string) (items []T, count int, err error) {
	count, err = strconv.Atoi(data[countKey])
	if err != nil || count < 0 {
		return nil, 0, fmt.Errorf("%s: %q: must be a number that is not negative", countKey, data[countKey])
	}
	n := 0
	for line := range strings.Lines(data[key]) {
		n++
		var item T
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			return nil, 0, fmt.Errorf("%s: line %d: must be a %s in JSON: %w", key, n, what, err)
		}
		items = append(items, item)
	}
	if n > count {
		return nil, 0, fmt.Errorf("%s: %d: must be at least the %d %ss under %s", countKey, count, n, what, key)
	}
	return items, count, nil
}
