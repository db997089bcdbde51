package pods

import (
	"maps"
	"slices"
	"strings"
)

// LabelSet returns the labels of the pods. The caller may change it.
func (t Template) LabelSet() map[string]string { return decodeLabels(t.Labels) }

// encodeLabels returns the labels as text, sorted by key and cut off after maxLabels bytes.
func encodeLabels(labels map[string]string) string {
	var b strings.Builder
	left := budget(maxLabels)
	for i, k := range slices.Sorted(maps.Keys(labels)) {
		if !left.take(len(k) + len(labels[k]) + len("=,")) {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k + "=" + labels[k])
	}
	return b.String()
}

func decodeLabels(s string) map[string]string {
	if s == "" {
		return nil
	}
	labels := make(map[string]string, strings.Count(s, ",")+1)
	for pair := range strings.SplitSeq(s, ",") {
		k, v, _ := strings.Cut(pair, "=")
		labels[k] = v
	}
	return labels
}
