// Package pick reads which scenes are to be played, for the scenes and for what makes their images.
package pick

import (
	"errors"
	"slices"
	"strings"
)

// Scenes are names of scenes, or all but those.
type Scenes struct {
	Names  []string
	AllBut bool
}

// Parse reads a comma-separated list of names, each with a hyphen before it for all but those. An empty
// one is all but none.
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

// Has reports whether the scene is one of them.
func (s Scenes) Has(name string) bool { return slices.Contains(s.Names, name) != s.AllBut }
