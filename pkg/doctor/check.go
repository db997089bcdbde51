package doctor

import (
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Level is how much a finding matters.
type Level string

// The levels, the worst first.
const (
	Error   Level = "error"   // something does not work, or will not
	Warning Level = "warning" // something is probably not intended, or will fail later
	Info    Level = "info"    // worth knowing
	OK      Level = "ok"      // the check was made and found nothing
)

// levels are all levels, the worst first.
var levels = []Level{Error, Warning, Info, OK}

// worse compares levels: it returns a negative number if a is worse than b.
func worse(a, b Level) int { return slices.Index(levels, a) - slices.Index(levels, b) }

// ID names a check. It never changes and is never reused.
type ID string

// Group is when a check is made.
type Group string

// The groups, in the order in which they are documented.
const (
	Doctor    Group = "The examination itself"
	Before    Group = "Before servingcert is installed"
	System    Group = "The installation"
	Authority Group = "The CA and who trusts it"
	Services  Group = "Services and namespaces"
	Workloads Group = "Workloads"
)

// Check is one entry of the catalogue.
type Check struct {
	ID    ID
	Name  string // one word, as reasons of conditions are
	Group Group
	Level Level // the default level of its findings
	// Looks is the condition under which the check passes, as a clause.
	Looks string
	Why   string // the consequence of a finding: one or two sentences
	Fix   string // the remedy: one or two sentences
	See   string // a page of the documentation, with an anchor, relative to docs/
	// Offline is true if analyze makes the check too, from manifests alone.
	Offline bool
}

// documentation is the address of docs/checks.md.
const documentation = api.Documentation + "checks.md#"

// Link returns the address of the check's place in the documentation.
func (id ID) Link() string { return documentation + id.Anchor() }

// Anchor returns the anchor of the check in docs/checks.md.
func (id ID) Anchor() string { return strings.ToLower(string(id)) }

// CheckOf returns the check with the id, or the zero Check.
func CheckOf(id ID) Check {
	i := slices.IndexFunc(checks, func(c Check) bool { return c.ID == id })
	if i < 0 {
		return Check{}
	}
	return checks[i]
}
