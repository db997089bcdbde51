package mutate

import (
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// table returns the programs that are known.
func (in *input) table() programs.Table {
	if in.choice.programs != nil {
		return *in.choice.programs
	}
	return programs.Builtin()
}

// programOf returns the program that the container runs, or nil if it is not known. If
// neither its executable nor its image says it, its arguments may.
func (in *input) programOf(c *corev1.Container) *programs.Program {
	if p := in.programByName(c); p != nil {
		return p
	}
	line := commandLineOf(c)
	if start := line.program(); start < line.command {
		if !programs.IsGeneral(line.tokens[start]) {
			return nil
		}
		line.tokens = line.tokens[start+1:]
	}
	leads := func(p *programs.Program) bool {
		return slices.ContainsFunc(in.choice.Ports, func(target intstr.IntOrString) bool {
			n, ok := portNumber(c, target)
			return ok && slices.Contains(p.Ports, n)
		})
	}
	if found := in.table().ByArguments(line.tokens); len(found) == 1 && leads(found[0]) {
		return found[0]
	}
	return nil
}

// programByName returns the program of the container's executable or image, or nil. The
// executable of the command says more than the image. Where the command starts something
// else that may start the program of the image, such as a script, or an executable with the
// image's own name, the image decides.
func (in *input) programByName(c *corev1.Container) *programs.Program {
	table := in.table()
	ofImage, _ := table.ByImage(c.Image)
	line := commandLineOf(c)
	start := line.program()
	if start >= len(line.tokens) {
		return ofImage
	}
	executable := line.tokens[start]
	found, _ := table.ByExecutable(executable)
	switch {
	case found != nil && !strings.HasPrefix(executable, "-"):
		return found
	case start >= line.command && !strings.HasPrefix(executable, "/"):
		return ofImage // an argument of the image's own entrypoint
	case startsPrograms(executable), path.Base(executable) == path.Base(programs.Untagged(c.Image)):
		return ofImage
	}
	return nil
}

// interpreters run programs that their arguments name.
var interpreters = []string{"java", "node", "nodejs", "python", "python2", "python3", "ruby", "perl", "php", "dotnet", "deno", "bun"}

// startsPrograms reports whether an executable runs another program, or has a name such as
// manager that many programs have, so that it does not say itself what the container runs.
func startsPrograms(executable string) bool {
	name := path.Base(executable)
	return programs.IsGeneral(name) || isShellName(name) || isScript(name) || slices.Contains(interpreters, name) || slices.Contains(runners, name) || strings.Contains(name, "entrypoint")
}

// isScript reports whether the name of an executable is that of a shell script.
func isScript(name string) bool {
	return slices.Contains([]string{".sh", ".bash", ".ash", ".ksh", ".zsh"}, path.Ext(name))
}

// without returns the command line without these tokens.
func (l commandLine) without(given []string) commandLine {
	isGiven := func(t string) bool { return slices.Contains(given, t) }
	command := slices.DeleteFunc(slices.Clone(l.tokens[:l.command]), isGiven)
	args := slices.DeleteFunc(slices.Clone(l.tokens[l.command:]), isGiven)
	return commandLine{append(command, args...), len(command)}
}

// runs returns the base name of the executable, empty for what the image starts, and the word
// after it if that says what it runs: a subcommand, or the script of an interpreter.
func (l commandLine) runs() (executable string, words []string) {
	rest := l.tokens[min(l.program(), len(l.tokens)):]
	if l.program() < l.command {
		executable, rest = path.Base(rest[0]), rest[1:]
	}
	interprets := executable != "" && (isShellName(executable) || slices.Contains(interpreters, executable))
	for _, t := range rest {
		switch {
		case interprets && strings.HasPrefix(t, "-"): // an option of the interpreter
		case interprets, subcommand.MatchString(t):
			return executable, []string{t}
		default:
			return executable, nil
		}
	}
	return executable, nil
}

// subcommand matches a word that says what a program of several does, and no value such as a
// path, an address or a URL.
var subcommand = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,30}$`)
