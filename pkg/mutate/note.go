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
		b.WriteString(" (" + api.Shorten(strings.Join(strings.Fields(n.Detail), " "), cmp.Or(rule.most, maxDetail)) + ")")
	}
	b.WriteString(": " + rule.then)
	if rule.do != "" {
		b.WriteString("; " + rule.do)
	}
	return b.String()
}

// list returns the first few names, separated by commas.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
