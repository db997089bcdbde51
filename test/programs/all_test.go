//go:build linux

package programs

import (
	"cmp"
	"slices"
)

// list are the programs that are run, by name.
var list = slices.SortedFunc(slices.Values(slices.Concat(webConfigFile, servers, components)), func(a, b program) int { return cmp.Compare(a.name, b.name) })
