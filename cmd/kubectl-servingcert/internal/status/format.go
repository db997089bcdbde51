package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Short returns as much of a hash as people are shown.
func Short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

// Dash returns what a table shows for s: "-" if it is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// maxNamed bounds how many of each kind are named.
const maxNamed = 20

// named is one line with how many there are and the names of at most maxNamed.
func named(what string, names []string) string {
	if len(names) == 0 {
		return "  " + what + ": none\n"
	}
	slices.Sort(names)
	return fmt.Sprintf("  %s: %d: %s\n", what, len(names), Listed(names))
}

// Listed returns the first of the names, and how many more there are.
func Listed(names []string) string {
	return api.Listed(names, maxNamed)
}

// Bounded returns the first of the lines, and how many more there are.
func Bounded(lines []string) string {
	shown := strings.Join(lines[:min(len(lines), maxNamed)], "\n")
	if more := len(lines) - maxNamed; more > 0 {
		return fmt.Sprintf("%s\nand %d more", shown, more)
	}
	return shown
}

// Count returns the number with the noun: 1 Service, 2 Services.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// All returns that number of the noun as the subject of a sentence, with its verb: 1
// certificate is, all 2 certificates are.
func All(n int, noun string) string {
	if n == 1 {
		return Count(n, noun) + " is"
	}
	return "all " + Count(n, noun) + " are"
}
