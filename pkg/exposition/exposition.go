// Package exposition writes metrics in the Prometheus text format for small processes, in which the Prometheus
// client library would use more memory than everything else.
package exposition

import (
	"bytes"
	"fmt"
)

// Text is metrics in the text format.
type Text struct {
	bytes.Buffer
	name string
}

// Family begins a metric. labels are the label names of its lines.
func (t *Text) Family(name, kind, help string, _ ...string) {
	t.name = name
	fmt.Fprintf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Value writes a line of the metric. labels alternate between names and values.
func (t *Text) Value(n int64, labels ...string) {
	t.WriteString(t.name)
	separator := "{"
	for i := 0; i+1 < len(labels); i += 2 {
		fmt.Fprintf(t, "%s%s=%q", separator, labels[i], labels[i+1])
		separator = ","
	}
	if len(labels) > 0 {
		t.WriteString("}")
	}
	fmt.Fprintf(t, " %d\n", n)
}
