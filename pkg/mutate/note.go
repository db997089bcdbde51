package mutate

import (
	"strings"
)

// Note is one thing that was not done, or not as might be expected.
type Note struct {
	Reason     Reason
	Containers []string // those that it is about; empty: the whole pod
	Detail     string   // what exactly was found; may be empty
}

// maxDetail bounds what a note repeats of the user's words, so that warnings
// stay below what the API server passes on (256 characters each when many).
const maxDetail = 100

// String returns the note as one line: what was found, what follows, and what
// to do about it.
func (n Note) String() string {
	rule := ruleOf(n.Reason)
	var b strings.Builder
	switch len(n.Containers) {
	case 0:
	case 1:
		b.WriteString("container " + n.Containers[0] + ": ")
	default:
		b.WriteString("containers " + list(n.Containers) + ": ")
	}
	b.WriteString(rule.when)
	if n.Detail != "" {
		b.WriteString(" (" + shorten(n.Detail, maxDetail) + ")")
	}
	b.WriteString(": " + rule.then)
	if rule.do != "" {
		b.WriteString("; " + rule.do)
	}
	return b.String()
}

func shorten(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// list writes names for a person, few enough to be read.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
