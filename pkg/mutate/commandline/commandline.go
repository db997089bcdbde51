// Package commandline analyzes the command line of a container, as far as its pod specifies it: the
// program behind wrappers such as tini, whether appended arguments reach it, and where they belong.
// It is pure, and knows no servers: package programs does.
//
//	line := commandline.Of(container)
//	if !line.IgnoresArguments() {
//		at := line.End() // where flags go
//	}
package commandline

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Line is the command line of a container, as far as the pod specifies it: command and then
// args. Without a command, the image's ENTRYPOINT comes before it.
type Line struct {
	Tokens  []string
	Command int // the number of tokens of the command
}

// Of returns the command line of the container.
func Of(c *corev1.Container) Line {
	return Line{slices.Concat(c.Command, c.Args), len(c.Command)}
}

// End returns the index at which flags are inserted: before a bare "--", after which
// everything is positional, or else at the end.
func (l Line) End() int {
	start := l.Program()
	if i := slices.Index(l.Tokens[start:], "--"); i >= 0 {
		return start + i
	}
	return len(l.Tokens)
}

// Start returns the index at which flags are inserted that must come before all arguments:
// after the program, or before the arguments if the image's command starts it. known reports
// whether an executable belongs to a known program.
func (l Line) Start(known func(executable string) bool) int {
	start := l.Program()
	if start >= len(l.Tokens) {
		return len(l.Tokens)
	}
	if start < l.Command || !strings.HasPrefix(l.Tokens[start], "-") && known(l.Tokens[start]) {
		return start + 1
	}
	return start
}
