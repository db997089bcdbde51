package programs

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/mutate/commandline"
)

// Of returns the program that the container runs, or nil if it is unknown. If neither its
// executable nor its image identifies it, its arguments may; then a Service must lead to one of
// the program's ports.
func (t Table) Of(c *corev1.Container, leads func(ports []int32) bool) *Program {
	if p := t.byName(c); p != nil {
		return p
	}
	line := commandline.Of(c)
	if start := line.Program(); start < line.Command {
		if !IsGeneral(line.Tokens[start]) {
			return nil
		}
		line.Tokens = line.Tokens[start+1:]
	}
	if found := t.ByArguments(line.Tokens); len(found) == 1 && leads(found[0].Ports) {
		return found[0]
	}
	return nil
}

// Knows reports whether the table has a program with the executable.
func (t Table) Knows(executable string) bool {
	_, known := t.ByExecutable(executable)
	return known
}

// byName returns the program of the container's executable or image, or nil. The executable
// of the command takes precedence over the image. If the command starts something that may
// start the image's program, such as a script or an executable with the image's name, the
// image decides.
func (t Table) byName(c *corev1.Container) *Program {
	ofImage, _ := t.ByImage(c.Image)
	line := commandline.Of(c)
	start := line.Program()
	if start >= len(line.Tokens) {
		return ofImage
	}
	executable := line.Tokens[start]
	found, _ := t.ByExecutable(executable)
	switch {
	case found != nil && !strings.HasPrefix(executable, "-"):
		return found
	case start >= line.Command && !strings.HasPrefix(executable, "/"):
		return ofImage // an argument of the image's own entrypoint
	case IsGeneral(executable), commandline.StartsOthers(executable), path.Base(executable) == path.Base(Untagged(c.Image)):
		return ofImage
	}
	return nil
}
