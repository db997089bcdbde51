package commandline

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// runners run what their own file describes, and interpret appended arguments themselves or
// ignore them.
var runners = []string{
	"npm", "pnpm", "yarn", "make", "rake", "gradle", "gradlew", "mvn", "mvnw", "task", "just",
	"supervisord", "circusd", "pm2", "pm2-runtime", "foreman", "honcho", "forego", "overmind", "goreman", "concurrently",
	"s6-svscan", "runsvdir", "runsv", "runit", "my_init", "monit", "systemd", "init",
}

// interpreters run programs that their arguments name.
var interpreters = []string{"java", "node", "nodejs", "python", "python2", "python3", "ruby", "perl", "php", "dotnet", "deno", "bun"}

// StartsOthers reports whether an executable runs another program, so that it does not identify
// the program of the container.
func StartsOthers(executable string) bool {
	name := path.Base(executable)
	return isShellName(name) || isScript(name) || slices.Contains(interpreters, name) || slices.Contains(runners, name) || strings.Contains(name, "entrypoint")
}

// isScript reports whether the name of an executable is that of a shell script.
func isScript(name string) bool {
	return slices.Contains([]string{".sh", ".bash", ".ash", ".ksh", ".zsh"}, path.Ext(name))
}

var shells = []string{"sh", "bash", "ash", "dash", "zsh", "ksh", "mksh", "busybox"}

func isShellName(token string) bool { return slices.Contains(shells, path.Base(token)) }

// IgnoresArguments reports whether the command line does not pass appended arguments to the
// program: it is a runner, a wrapper without a program, which would interpret them as one, a
// shell with option -c, whose arguments become $0 and $1, or a shell without a script.
func (l Line) IgnoresArguments() bool {
	rest := l.Tokens[l.Program():]
	if len(rest) == 0 {
		return false
	}
	if w, ok := wrapperOf(rest[0]); ok && !w.needs && !w.script && !w.module && w.verb == "" && !slices.ContainsFunc(rest[1:], w.mayTakeValue) {
		return true
	}
	if l.Command == 0 && looksLikeScript(rest) || slices.Contains(runners, path.Base(rest[0])) || hasScript(rest[1:]) {
		return true
	}
	if !isShellName(rest[0]) {
		return takesScript(rest)
	}
	if path.Base(rest[0]) == "busybox" {
		if rest = rest[1:]; len(rest) == 0 || !isShellName(rest[0]) {
			return false
		}
	}
	return !runsScriptFile(rest[1:])
}

// hasScript reports whether a shell with a -c option is among the arguments of another
// program, which runs it.
func hasScript(args []string) bool {
	option := false // whether an option -c follows, so that no argument is checked twice
	for i := len(args) - 1; i >= 0; i-- {
		if option && takesOption(args[i]) || isShellName(args[i]) && i+2 < len(args) && isShellOption(args[i+1]) {
			return true
		}
		option = option || isShellOption(args[i])
	}
	return false
}

// takesScript reports whether the program of a command line runs the value of its option -c
// with a shell.
func takesScript(line []string) bool {
	return takesOption(line[0]) && slices.ContainsFunc(line[1:], isShellOption)
}

// takesOption reports whether the program runs the value of its option -c with a shell.
func takesOption(token string) bool {
	return slices.Contains([]string{"su", "runuser", "script", "sg", "flock"}, path.Base(token))
}

// runsScriptFile reports whether a shell with these arguments runs a file, which gets
// appended arguments.
func runsScriptFile(args []string) bool {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return i+1 < len(args)
		case strings.HasPrefix(a, "--"): // --login, --norc
		case strings.HasPrefix(a, "-"), strings.HasPrefix(a, "+"):
			if strings.Contains(a, "c") {
				return false
			}
			if strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O") { // -o pipefail
				i++
			}
		default:
			return true
		}
	}
	return false
}

// looksLikeScript reports whether these look like the arguments of an image whose
// ENTRYPOINT is a shell: -c and then more than one word. A configuration file
// (envoy -c FILE) is one word.
func looksLikeScript(args []string) bool {
	return len(args) >= 2 && isShellOption(args[0]) && strings.ContainsAny(strings.TrimSpace(args[1]), " \t\n;|&")
}

// shellOption matches a shell's option -c, with others before and after it: -ec, -ecx, -lc.
var shellOption = regexp.MustCompile(`^-[aefhiklmnuvxb]{0,5}c[aefhiklmnuvxb]{0,5}$`)

// isShellOption reports whether an argument matches shellOption. Most arguments are longer and
// need no regular expression.
func isShellOption(arg string) bool {
	return len(arg) <= maxShellOption && strings.HasPrefix(arg, "-") && shellOption.MatchString(arg)
}

// maxShellOption is the length of the longest text that shellOption matches.
const maxShellOption = len("-") + 5 + len("c") + 5
