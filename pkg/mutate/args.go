package mutate

import (
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// commandLine is what a container runs, as far as the pod specifies it: command and then
// args. Without a command, the image's ENTRYPOINT comes before it.
type commandLine struct {
	tokens  []string
	command int // how many of the tokens are the command's
}

func commandLineOf(c *corev1.Container) commandLine {
	return commandLine{slices.Concat(c.Command, c.Args), len(c.Command)}
}

// wrapper is a program that runs the rest of its command line as another program.
type wrapper struct {
	operands int  // how many arguments of its own come before the program
	dashes   bool // after an option, a bare "--" ends its own arguments
	needs    bool // the program can only be found after a bare "--"
	// verb comes before the program, as in "bundle exec puma".
	verb string
	// module is true if the program is the value of option -m, as in "python -m gunicorn".
	module bool
	// script: one of an image, which by convention runs the image's program if its arguments
	// begin with an option.
	script bool
}

var wrappers = map[string]wrapper{
	"tini": {dashes: true}, "tini-static": {dashes: true}, "docker-init": {dashes: true}, "dumb-init": {dashes: true},
	"catatonit": {dashes: true}, "setpriv": {dashes: true}, "vault-env": {dashes: true},
	"env": {}, "exec": {}, "nice": {}, "ionice": {}, "setsid": {}, "stdbuf": {},
	"gosu": {operands: 1}, "su-exec": {operands: 1}, "timeout": {operands: 1},
	"chamber": {needs: true}, "dlv": {needs: true}, "doppler": {needs: true}, "envconsul": {needs: true},
	"npm": {needs: true}, "npx": {}, "pnpm": {needs: true}, "yarn": {needs: true},
	"bundle": {verb: "exec"}, "poetry": {verb: "run"}, "uv": {verb: "run"}, "pipenv": {verb: "run"}, "pdm": {verb: "run"},
	"python": {module: true}, "ddtrace-run": {}, "opentelemetry-instrument": {}, "newrelic-admin": {verb: "run-program"},
	"docker-entrypoint.sh": {script: true}, "entrypoint.sh": {script: true},
}

// runners run what a file of theirs says, and take appended arguments for themselves or
// ignore them.
var runners = []string{
	"npm", "pnpm", "yarn", "make", "rake", "gradle", "gradlew", "mvn", "mvnw", "task", "just",
	"supervisord", "circusd", "pm2", "pm2-runtime", "foreman", "honcho", "forego", "overmind", "goreman", "concurrently",
	"s6-svscan", "runsvdir", "runsv", "runit", "my_init", "monit", "systemd", "init",
}

// program returns the index of the program after wrappers such as "tini --" and
// "env A=b". The program is what is examined and what gets the flags.
func (l commandLine) program() int {
	start := 0
	for start < len(l.tokens) {
		w, ok := wrapperOf(l.tokens[start])
		if !ok {
			return start
		}
		n := w.program(l.tokens[start+1:])
		if n < 0 {
			return start
		}
		start += 1 + n
	}
	return start
}

// wrapperOf returns the wrapper that an executable is. Python may have its version in its name.
func wrapperOf(executable string) (wrapper, bool) {
	name := path.Base(executable)
	if strings.HasPrefix(name, "python") && strings.Trim(name[len("python"):], "0123456789.") == "" {
		name = "python"
	}
	w, ok := wrappers[name]
	return w, ok
}

// program returns the index of the program in the wrapper's arguments, or -1.
func (w wrapper) program(args []string) int {
	if w.script {
		return programOfScript(args)
	}
	if w.module {
		return programOfModule(args)
	}
	if w.verb != "" {
		return w.programAfterVerb(args)
	}
	dashes := slices.Index(args, "--")
	if dashes >= 0 && (w.needs || w.dashes && strings.HasPrefix(args[0], "-")) {
		return dashes + 1 // an option before it may have a value, so do not guess
	}
	if w.needs {
		return -1
	}
	for i, a := range args {
		switch {
		case a == "--" && w.operands == 0:
			return i + 1
		case strings.HasPrefix(a, "-"), strings.Contains(a, "="): // an option, or a variable of env
		case i > 0 && strings.HasPrefix(args[i-1], "-") && number.MatchString(a): // nice -n 10
		case w.operands > 0:
			w.operands--
		default:
			return i
		}
	}
	return -1
}

// programAfterVerb returns the index of the program after the wrapper's verb, such as exec of
// bundle, or -1.
func (w wrapper) programAfterVerb(args []string) int {
	if len(args) == 0 || args[0] != w.verb {
		return -1
	}
	w.verb = ""
	if n := w.program(args[1:]); n >= 0 {
		return 1 + n
	}
	return -1
}

// programOfModule returns the index of the module in the arguments of Python, or -1 if it runs
// a file.
func programOfModule(args []string) int {
	for i, a := range args {
		switch {
		case a == "-m" && i+1 < len(args):
			return i + 1
		case !strings.HasPrefix(a, "-"), a == "-c", a == "-":
			return -1
		}
	}
	return -1
}

// programOfScript returns the index of the program in the arguments of a wrapper that is a
// script, or -1 if the script runs that of the image.
func programOfScript(args []string) int {
	switch {
	case len(args) == 0:
		return -1
	case args[0] == "--":
		return 1
	case strings.HasPrefix(args[0], "-"):
		return -1
	}
	return 0
}

var number = regexp.MustCompile(`^[0-9]+$`)

// end returns the index at which flags are inserted: before a bare "--", after which
// everything is positional, or else at the end.
func (l commandLine) end() int {
	start := l.program()
	if i := slices.Index(l.tokens[start:], "--"); i >= 0 {
		return start + i
	}
	return len(l.tokens)
}

// start returns the index at which flags are inserted that come before all arguments: after
// the program, or before the arguments of an image whose command starts it.
func (l commandLine) start(table programs.Table) int {
	start := l.program()
	if start >= len(l.tokens) {
		return len(l.tokens)
	}
	if _, known := table.ByExecutable(l.tokens[start]); start < l.command || known && !strings.HasPrefix(l.tokens[start], "-") {
		return start + 1
	}
	return start
}

var shells = []string{"sh", "bash", "ash", "dash", "zsh", "ksh", "mksh", "busybox"}

func isShellName(token string) bool { return slices.Contains(shells, path.Base(token)) }

// ignoresArguments reports whether the command line does not pass appended arguments to
// the program: that of a runner, of a wrapper of no program, which would take them for one, or
// of a shell with a -c option, whose arguments become $0 and $1, or without a script.
func (l commandLine) ignoresArguments() bool {
	rest := l.tokens[l.program():]
	if len(rest) == 0 {
		return false
	}
	if w, ok := wrapperOf(rest[0]); ok && !w.needs && !w.script && !w.module && w.verb == "" {
		return true
	}
	if l.command == 0 && looksLikeScript(rest) || slices.Contains(runners, path.Base(rest[0])) || hasScript(rest[1:]) {
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
	option := false // whether an option -c follows, so that no argument is looked at twice
	for i := len(args) - 1; i >= 0; i-- {
		if option && takesOption(args[i]) || isShellName(args[i]) && i+2 < len(args) && isShellOption(args[i+1]) {
			return true
		}
		option = option || isShellOption(args[i])
	}
	return false
}

// takesScript reports whether a command line is that of a program that runs the value of its
// option -c with a shell.
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

// isShellOption reports whether an argument is such an option. Most arguments are longer, and
// need no regular expression.
func isShellOption(arg string) bool {
	return len(arg) <= maxShellOption && strings.HasPrefix(arg, "-") && shellOption.MatchString(arg)
}

// maxShellOption is the length of the longest text that shellOption matches.
const maxShellOption = len("-") + 5 + len("c") + 5

// reference matches a variable in a command line, as the kubelet expands it.
var reference = regexp.MustCompile(`\$\(([^()]*)\)`)

// expanded returns the command line with the variables replaced that have a value in
// the pod or are injected.
func (in *input) expanded(c *corev1.Container, line commandLine) []string {
	tokens := line.tokens
	var values map[string]string
	for i, t := range tokens {
		if !strings.Contains(t, "$(") {
			continue
		}
		if values == nil {
			values, tokens = in.variables(c), slices.Clone(tokens)
		}
		tokens[i] = reference.ReplaceAllStringFunc(t, func(ref string) string {
			if v, ok := values[ref[2:len(ref)-1]]; ok {
				return v
			}
			return ref
		})
	}
	return tokens
}

// variables returns the values of the container's variables, injected ones included.
func (in *input) variables(c *corev1.Container) map[string]string {
	values := make(map[string]string, len(c.Env)+3)
	if in.settings.Mode != api.ModeMount {
		for _, e := range in.environment() {
			values[e.Name] = e.Value
		}
	}
	for _, e := range c.Env {
		values[e.Name] = e.Value
	}
	return values
}
