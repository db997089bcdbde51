package invariant

import (
	"fmt"
	"maps"
	"slices"
)

// Version is which version of an object is there.
type Version struct{ UID, ResourceVersion string }

// Foreign checks that objects which are nobody's business are as they were, by name. It
// returns what is gone, was replaced or was written.
func Foreign(before, after map[string]Version) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		now, ok := after[name]
		switch {
		case !ok:
			out = append(out, name+" is gone")
		case now.UID != before[name].UID:
			out = append(out, name+" was replaced")
		case now.ResourceVersion != before[name].ResourceVersion:
			out = append(out, fmt.Sprintf("%s was written: version %s, was %s", name, now.ResourceVersion, before[name].ResourceVersion))
		}
	}
	return out
}
