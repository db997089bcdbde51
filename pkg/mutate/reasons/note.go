package reasons

import (
	"cmp"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Note is something that was not done, or was done in an unexpected way.
type Note struct {
	Reason     Reason
	Containers []string // the containers concerned; empty for the whole pod
	Detail     string   // what exactly was found; may be empty
	Ports      []string // the targetPorts that get no proxy; Detail has only the first. Empty: all of them
}

// maxDetail is how many characters of a detail a note shows. The API server truncates
// warnings to 256 characters if there are many.
const maxDetail = 100

// String returns the note as one line: what was found, what is done, and what the
// pod's owner can do about it.
func (n Note) String() string { return n.After("") }

// After returns the note as one line after a prefix.
func (n Note) After(prefix string) string {
	rule := Of(n.Reason)
	parts := append(make([]string, 0, 12), prefix)
	switch len(n.Containers) {
	case 0:
	case 1:
		parts = append(parts, "container ", n.Containers[0], ": ")
	default:
		parts = append(parts, "containers ", List(n.Containers), ": ")
	}
	parts = append(parts, rule.When)
	if n.Detail != "" {
		most := cmp.Or(rule.most, maxDetail)
		line := strings.Join(strings.Fields(api.Shorten(n.Detail, 4*most)), " ") // it may be a text of the pod, of any length
		parts = append(parts, " (", api.Shorten(line, most), ")")
	}
	parts = append(parts, ": ", rule.Then)
	if rule.Do != "" {
		parts = append(parts, "; ", rule.Do)
	}
	return strings.Join(parts, "")
}

// List returns the first few names, separated by commas.
func List(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
