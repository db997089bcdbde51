// Package pick parses the list of scenes to run, for the scenes and for the command that builds their images.
package pick

import (
	"errors"
	"slices"
	"strings"
)

// Scenes is a selection of scenes.
type Scenes struct {
	Names  []string
	AllBut bool
}

// Parse parses a comma-separated list of names, or of names with a leading hyphen, which excludes them. An
// empty list selects all scenes.
func Parse(list string) (Scenes, error) {
	if list == "" {
		return Scenes{AllBut: true}, nil
	}
	var s Scenes
	for i, name := range strings.Split(list, ",") {
		name, but := strings.CutPrefix(name, "-")
		if i > 0 && but != s.AllBut {
			return Scenes{}, errors.New("scenes: " + list + ": must have a hyphen before each name, or before none")
		}
		s.Names, s.AllBut = append(s.Names, name), but
	}
	return s, nil
}

// Has reports whether the scene is selected.
func (s Scenes) Has(name string) bool { return slices.Contains(s.Names, name) != s.AllBut }
