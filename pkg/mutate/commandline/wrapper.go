package commandline

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// wrapper is a program that runs the rest of its command line as another program.
type wrapper struct {
	operands int  // the number of its own arguments before the program
	dashes   bool // after an option, a bare "--" ends its own arguments
	needs    bool // the program can only be found after a bare "--"
	// verb comes before the program, as in "bundle exec puma".
	verb string
	// module is true if the program is the value of option -m, as in "python -m gunicorn".
	module bool
	// flags are its options without a value, if it also has options with one: the argument after
	// another option may be a value, not the program.
	flags []string
	// script: an image's entrypoint script, which by convention runs the image's program if its
	// arguments begin with an option.
	script bool
}

var wrappers = map[string]wrapper{
	"tini": {dashes: true}, "tini-static": {dashes: true}, "docker-init": {dashes: true}, "dumb-init": {dashes: true},
	"catatonit": {dashes: true}, "setpriv": {dashes: true}, "vault-env": {dashes: true},
	"env": {flags: []string{"-", "-i", "--ignore-environment", "-0", "--null", "-v", "--debug"}}, "exec": {}, "nice": {}, "ionice": {}, "setsid": {}, "stdbuf": {},
	"gosu": {operands: 1}, "su-exec": {operands: 1}, "timeout": {operands: 1},
	"chamber": {needs: true}, "dlv": {needs: true}, "doppler": {needs: true}, "envconsul": {needs: true},
	"npm": {needs: true}, "npx": {}, "pnpm": {needs: true}, "yarn": {needs: true},
	"bundle": {verb: "exec"}, "poetry": {verb: "run"}, "uv": {verb: "run", flags: uvFlags}, "pipenv": {verb: "run"}, "pdm": {verb: "run"},
	"python": {module: true}, "ddtrace-run": {}, "opentelemetry-instrument": {}, "newrelic-admin": {verb: "run-program"},
	"docker-entrypoint.sh": {script: true}, "entrypoint.sh": {script: true},
}

// Wrappers returns the base names of the executables that are wrappers, sorted.
func Wrappers() []string { return slices.Sorted(maps.Keys(wrappers)) }

// uvFlags are options of "uv run" without a value. The value of -m is the program.
var uvFlags = []string{
	"-m", "--module", "--frozen", "--locked", "--exact", "--active", "--isolated", "--offline", "-n", "--no-cache", "-q", "--quiet", "-v", "--verbose",
	"--dev", "--no-dev", "--only-dev", "--no-default-groups", "--all-extras", "--all-groups", "--all-packages", "--no-sync", "--no-editable", "--no-project",
	"--no-config", "--no-env-file", "--no-progress", "--no-python-downloads", "--native-tls", "--compile-bytecode", "--managed-python", "--no-managed-python",
}

// Program returns the index of the program after wrappers such as "tini --" and "env A=b", or
// the number of tokens if there is none. The program is examined and gets the flags.
func (l Line) Program() int {
	start := 0
	for start < len(l.Tokens) {
		w, ok := wrapperOf(l.Tokens[start])
		if !ok {
			return start
		}
		n := w.program(l.Tokens[start+1:])
		if n < 0 {
			return start
		}
		start += 1 + n
	}
	return start
}

// wrapperOf returns the wrapper of an executable. Python may have its version in its name.
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
	return w.firstOperand(args, dashes)
}

// firstOperand returns the index of the first argument that is neither an option of the wrapper nor
// one of its operands, or -1. dashes is the index of the first "--", or -1.
func (w wrapper) firstOperand(args []string, dashes int) int {
	for i, a := range args {
		switch {
		case a == "--" && w.operands == 0:
			return i + 1
		case w.mayTakeValue(a):
			if dashes > i {
				return dashes + 1
			}
			return -1
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

// mayTakeValue reports whether the argument after this one may be its value.
func (w wrapper) mayTakeValue(arg string) bool {
	return w.flags != nil && strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && !slices.Contains(w.flags, arg)
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

// programOfScript returns the index of the program in the arguments of an entrypoint script, or
// -1 if the script runs the image's program.
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
