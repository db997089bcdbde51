package status

import (
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/pkg/api"
)

// Short returns the part of a hash that is shown.
func Short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

// Dash returns s, or "-" if it is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// maxNamed is the maximum number of names in a list.
const maxNamed = 20

// named returns a line with the number of names and at most maxNamed of them.
func named(what string, names []string) string {
	if len(names) == 0 {
		return "  " + what + ": none\n"
	}
	slices.Sort(names)
	return fmt.Sprintf("  %s: %d: %s\n", what, len(names), Listed(names))
}

// Listed returns the first maxNamed names, and the number of the others.
func Listed(names []string) string {
	return api.Listed(names, maxNamed)
}

// All returns the number with the noun and "is" or "are": 1 certificate is, all 2
// certificates are.
func All(n int, noun string) string {
	if n == 1 {
		return api.Count(n, noun) + " is"
	}
	return "all " + api.Count(n, noun) + " are"
}
