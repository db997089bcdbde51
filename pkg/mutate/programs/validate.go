package programs

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// mistake is what is wrong in a field of a program.
type mistake struct{ field, detail string }

// Placeholders of files and of their directory. Each format has one too: see Placeholder.
const (
	Cert = "{cert}"
	Key  = "{key}"
	CA   = "{ca}"
	Dir  = "{dir}"
	// Password is the password of files that have one.
	Password = "{password}"
)

// Placeholder returns the placeholder of the first file of the format.
func Placeholder(f *formats.Format) string { return "{" + f.Name + "}" }

// placeholders lists all, and serving those with which a program finds its certificate.
var placeholders, serving = func() (all, serving []string) {
	all, serving = []string{Cert, Key, CA}, []string{Cert}
	for f := range formats.Asked().Formats() {
		all = append(all, Placeholder(f))
		if f.PrivateKey {
			serving = append(serving, Placeholder(f))
		}
	}
	return append(all, Dir, Password), append(serving, Dir)
}()

var (
	programName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	imageName   = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)?$`)
	// executableName excludes paths and options.
	executableName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)
	fileName       = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	variableName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	version        = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){0,2}$`)
	mountPath      = regexp.MustCompile(`^/tmp(/[A-Za-z0-9][A-Za-z0-9._-]*){1,8}$`)
	placeholder    = regexp.MustCompile(`\{[a-z]+\}`)
)

// maxConfig bounds a configuration file, because it becomes an annotation of each pod.
const maxConfig = 4 << 10

// tooGeneral are executables that run all kinds of programs, and names that many programs
// have, which identify none.
var tooGeneral = []string{
	"sh", "bash", "ash", "dash", "busybox", "java", "python", "python3", "node", "ruby", "php", "perl", "dotnet",
	"env", "tini", "dumb-init", "exec", "sudo", "su", "npm", "npx", "yarn", "pnpm", "server", "app", "main", "manager", "controller", "operator", "start", "run", "serve",
}

// IsGeneral reports whether an executable runs all kinds of programs or has a name that many
// programs have, so that it does not identify a program.
func IsGeneral(executable string) bool { return slices.Contains(tooGeneral, path.Base(executable)) }

// mistakes returns what is wrong with the program, regardless of others.
func (p *Program) mistakes() []mistake {
	var out []mistake
	add := func(field, format string, args ...any) {
		out = append(out, mistake{field, fmt.Sprintf(format, args...)})
	}
	if !programName.MatchString(p.Name) {
		add("program", "%q: must be a name of lower-case letters, digits, dots, dashes and underscores", p.Name)
	}
	if len(p.Images)+len(p.Executables)+len(p.Arguments) == 0 {
		add("images", "has neither images nor executables, so no container would match")
	}
	for _, v := range p.Images {
		if !imageName.MatchString(v) {
			add("images", "%q: must be the last part of a repository's name, such as prometheus, or the last two, without registry and tag", v)
		}
	}
	for _, v := range p.Executables {
		switch {
		case !executableName.MatchString(v):
			add("executables", "%q: must be the name of an executable, without its directory", v)
		case IsGeneral(v):
			add("executables", "%q: runs all kinds of programs", v)
		}
	}
	p.checkTakes(add)
	p.checkFiles(add)
	p.checkReload(add)
	return out
}

// checkTakes checks what the program gets.
func (p *Program) checkTakes(add func(field, format string, args ...any)) {
	switch {
	case p.None == "" && !p.Takes():
		add("none", "has neither flags nor env: none must say what a person has to do")
	case p.None != "" && (p.Takes() || len(p.Config)+len(p.Files)+len(p.Ports) > 0 || p.PrivateKey):
		add("none", "must be alone: the program also has flags, env, config, files, ports or privateKey")
	}
	p.checkMount(add)
	if p.Takes() && p.Mount == "" && !slices.ContainsFunc(serving, p.Uses) {
		add("flags", "neither flags, env nor config use %s or %s", strings.Join(serving[:len(serving)-1], ", "), Dir)
	}
	p.checkFlags(add)
	p.checkEnv(add)
	for _, v := range p.Own {
		if !strings.HasPrefix(v, "-") && !variableName.MatchString(v) && !IsPrefix(v) {
			add("own", "%q: must be a flag with its dashes, the name of a variable, or the beginning of an argument such as http://", v)
		}
	}
	p.checkVersion(add)
	p.checkPorts(add)
	for text := range p.texts() {
		for _, used := range placeholder.FindAllString(text, -1) {
			if !slices.Contains(placeholders, used) {
				add("flags", "%s: must be one of %s", used, strings.Join(placeholders, " "))
			}
		}
	}
}

// checkVersion checks the fields that require flags or env.
func (p *Program) checkVersion(add func(field, format string, args ...any)) {
	switch {
	case p.Since == "":
	case !version.MatchString(p.Since):
		add("since", "%q: must be a version of one to three numbers, such as 2.24", p.Since)
	case len(p.Images) == 0 || !p.Takes():
		add("since", "is compared with the tags of images: must be with images, and with flags or env")
	}
	for field, set := range map[string]bool{"unless": len(p.Unless) > 0, "moves": p.Moves, "plain": p.Plain, "dropsRoot": p.DropsRoot} {
		if set && !p.Takes() {
			add(field, "must be with flags or env")
		}
	}
	if p.Moves && len(p.Ports) == 0 {
		add("moves", "must be with ports")
	}
	for _, v := range slices.Sorted(maps.Keys(p.Unless)) {
		if !strings.HasPrefix(v, "-") && !variableName.MatchString(v) || p.Unless[v] == "" {
			add("unless", "%q: must be a flag with its dashes or the name of a variable, and say what a person has to do", v)
		}
	}
}

// checkMount checks the fields for programs that are recognized by their arguments, and the
// additional directory for the files.
func (p *Program) checkMount(add func(field, format string, args ...any)) {
	for _, a := range p.Arguments {
		if !strings.HasPrefix(a, "--") || !fileName.MatchString(a[2:]) {
			add("arguments", "%q: must be a flag with two dashes and no value", a)
		}
	}
	if n := len(p.Arguments); n > 0 && (n < leastArguments || !p.Moves) {
		add("arguments", "must be at least %d, and with ports and moves: true", leastArguments)
	}
	if p.Mount != "" && !mountPath.MatchString(p.Mount) { // another directory could hide or add executables
		add("mount", "%q: must be a directory below /tmp, such as /tmp/certs", p.Mount)
	}
}

func (p *Program) checkPorts(add func(field, format string, args ...any)) {
	for field, ports := range map[string][]int32{"ports": p.Ports, "alsoPorts": p.AlsoPorts, "tlsPorts": p.TLSPorts} {
		for _, port := range ports {
			if len(validation.IsValidPortNum(int(port))) > 0 {
				add(field, "%d: must be from 1 to 65535", port)
			}
		}
	}
	for _, port := range slices.Sorted(maps.Keys(p.StartTLS)) {
		if protocol := p.StartTLS[port]; len(validation.IsValidPortNum(int(port))) > 0 || !protocol.Known() {
			add("startTLS", "%d: %q: must be a port from 1 to 65535, and one of %s", port, protocol, strings.Join(starttls.Protocols(), ", "))
		}
	}
	if len(p.StartTLS) > api.MaxProbes {
		add("startTLS", "%d ports: must be at most %d", len(p.StartTLS), api.MaxProbes)
	}
	if p.None != "" && len(p.AlsoPorts) > 0 {
		add("alsoPorts", "must be with flags or env")
	}
	if len(p.TLSPorts) > 0 && p.None == "" {
		add("tlsPorts", "must be with none: with flags or env it serves TLS with the certificate that it is given")
	}
	if len(p.TLSOff) > 0 && len(p.TLSPorts) == 0 {
		add("tlsOff", "must be with tlsPorts")
	}
	for _, v := range p.TLSOff {
		if !strings.HasPrefix(v, "-") && !variableName.MatchString(v) {
			add("tlsOff", "%q: must be a flag with its dashes or the name of a variable", v)
		}
	}
}

func (p *Program) checkFlags(add func(field, format string, args ...any)) {
	if p.Bare && (len(p.Flags) == 0 || len(p.Images) == 0) {
		add("bare", "says what the images do with arguments: must be with flags and images")
	}
	for i, f := range p.Flags {
		switch {
		case f == "" || strings.ContainsFunc(f, func(c rune) bool { return c < ' ' }):
			add("flags", "%q: must not be empty or contain control characters", f)
		case i == 0 && !strings.HasPrefix(f, "-"):
			add("flags", "%q: the first must start with a dash", f)
		case strings.Contains(f, "$("):
			add("flags", "%q: must not contain $(, which the kubelet replaces", f)
		}
	}
}

func (p *Program) checkEnv(add func(field, format string, args ...any)) {
	for i, v := range p.Env {
		switch {
		case len(validation.IsEnvVarName(v.Name)) > 0:
			add("env", "%q: not the name of a variable", v.Name)
		case slices.Contains(api.Variables(), v.Name):
			add("env", "%q: is set in every container", v.Name)
		case v.loadsCode():
			add("env", "%q: a program may load code because of it: must be a variable that configures its certificate", v.Name)
		case slices.ContainsFunc(p.Env[:i], func(other Variable) bool { return other.Name == v.Name }):
			add("env", "%q: occurs twice", v.Name)
		case strings.Contains(v.Value, "$("):
			add("env", "%q: must not contain $(, which the kubelet replaces", v.Name)
		}
	}
}

// checkFiles checks the names and contents of files.
func (p *Program) checkFiles(add func(field, format string, args ...any)) {
	keys := []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, api.BundleKey}
	taken := append(slices.Clone(keys), formats.Asked().Files()...)
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if !fileName.MatchString(name) || slices.Contains(taken, name) {
			add("files", "%q: must be the name of a file, and not %s", name, strings.Join(taken, ", "))
		}
		if key := p.Files[name]; !slices.Contains(keys, key) {
			add("files", "%q: %q: must be one of %s", name, key, strings.Join(keys, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Config)) {
		_, isFile := p.Files[name]
		switch {
		case !fileName.MatchString(name) || slices.Contains(taken, name) || isFile:
			add("config", "%q: must be the name of a file that is not there already", name)
		case len(p.Config[name]) > maxConfig:
			add("config", "%q: is longer than %d bytes", name, maxConfig)
		}
	}
}

func (p *Program) checkReload(add func(field, format string, args ...any)) {
	all := []Reload{ReloadItself, ReloadSignal, ReloadRequest, ReloadRestart}
	switch {
	case p.Reload == "" && p.None != "":
	case !slices.Contains(all, p.Reload):
		add("reload", "%q: must be itself, signal, request or restart", p.Reload)
	case (p.Reload == ReloadSignal || p.Reload == ReloadRequest) && p.ReloadHow == "":
		add("reloadHow", "must say which signal or request")
	}
}
