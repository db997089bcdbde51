package mutate

import (
	"cmp"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Note is something that was not done, or was done in another way than might be expected.
type Note struct {
	Reason     Reason
	Containers []string // the containers that it is about; empty for the whole pod
	Detail     string   // what exactly was found; may be empty
}

// maxDetail is how many characters of a detail a note shows. The API server truncates
// warnings to 256 characters if there are many.
const maxDetail = 100

// String returns the note as one line: what was found, what follows, and what to do
// about it.
func (n Note) String() string { return n.after("") }

// after returns the note as one line after a prefix.
func (n Note) after(prefix string) string {
	rule := ruleOf(n.Reason)
	parts := append(make([]string, 0, 12), prefix)
	switch len(n.Containers) {
	case 0:
	case 1:
		parts = append(parts, "container ", n.Containers[0], ": ")
	default:
		parts = append(parts, "containers ", list(n.Containers), ": ")
	}
	parts = append(parts, rule.when)
	if n.Detail != "" {
		line := strings.Join(strings.Fields(n.Detail), " ")
		parts = append(parts, " (", api.Shorten(line, cmp.Or(rule.most, maxDetail)), ")")
	}
	parts = append(parts, ": ", rule.then)
	if rule.do != "" {
		parts = append(parts, "; ", rule.do)
	}
	return strings.Join(parts, "")
}

// list returns the first few names, separated by commas.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
