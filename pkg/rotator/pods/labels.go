package pods

import (
	"maps"
	"slices"
	"strings"
)

// LabelSet returns the labels of the pods. The caller may change it.
func (t Template) LabelSet() map[string]string { return decodeLabels(t.Labels) }

func encodeLabels(labels map[string]string) string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(labels)) {
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
