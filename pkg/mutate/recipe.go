package mutate

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/commandline"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// recipe is what a container needs, in addition to the files and variables that all containers
// get, so that its program serves TLS.
type recipe struct {
	program *programs.Program // nil if the program is unknown
	flags   []programs.Setting
	env     []corev1.EnvVar
	// certificate holds the names of the variables that lead to the certificate.
	certificate map[string]bool
	mount       string // a further directory for the files, or empty
	first       bool   // the flags come before all other arguments
	bare        bool   // the image has no arguments that the flags would replace
	// unread is true if the image's tag does not show whether its version takes the recipe.
	unread bool
	own    []string // further signs that the owner configures TLS: flags, variables, prefixes of arguments
}

// recipeOf returns the recipe of the container, or nil and a note that explains why there
// is none.
func (in *input) recipeOf(c api.ContainerRef) (*recipe, reasons.Note) {
	program := in.programOf(c.Container)
	if program == nil || in.named {
		return &recipe{flags: []programs.Setting{
			programs.CertificateFlag(in.settings.CertFlag, in.file(corev1.TLSCertKey)),
			programs.CertificateFlag(in.settings.KeyFlag, in.file(corev1.TLSPrivateKeyKey)),
		}}, reasons.Note{}
	}
	if reason, detail := in.unmet(c, program); reason != "" {
		return nil, reasons.Note{Reason: reason, Containers: []string{c.Name}, Detail: program.Name + ": " + detail}
	}
	r := &recipe{
		program: program, flags: programs.Settings(program.Flags, in.replace),
		certificate: map[string]bool{}, mount: program.Mount, first: program.First, bare: program.Bare, own: program.Own,
		unread: !in.asked && in.table().Fits(program, c.Image) == programs.FitUnknown,
	}
	for _, v := range program.Env {
		r.env = append(r.env, corev1.EnvVar{Name: v.Name, Value: in.replace(v.Value)})
		r.certificate[v.Name] = programs.LeadsToCertificate(v.Value)
	}
	return r, reasons.Note{}
}

// unmet returns why the program's entry cannot be applied.
func (in *input) unmet(c api.ContainerRef, p *programs.Program) (reason reasons.Reason, detail string) {
	switch {
	case !p.Takes():
		do := in.replace(p.None)
		if missing := p.NoneFormats() &^ (in.request.Formats & in.choice.Formats); missing != 0 && in.choice.Host == "" {
			do += " For the file set " + reasons.AskFor(missing) + " and on the pod."
		}
		if on, _ := in.ownCertificate(c.Container, p); on && slices.ContainsFunc(tlsPorts(in, []api.ContainerRef{c}), func(port int32) bool { return slices.Contains(p.TLSPorts, port) }) {
			return reasons.OwnCertificate, do
		}
		return reasons.ProgramNeedsMore, do
	case !in.asked && in.table().Fits(p, c.Image) == programs.FitNo:
		return reasons.OlderVersion, "must be " + p.Since + " or newer"
	}
	if do := in.unless(c.Container, p); do != "" {
		return reasons.ProgramNeedsMore, in.replace(do)
	}
	if p.Moves && in.leavesPort(c, p) {
		return reasons.ProgramNeedsMore, "it would serve only on port " + numbers(p.Ports) + ", which is not the targetPort of the Service"
	}
	return in.unmetFiles(p)
}

// unmetFiles returns why the program cannot get the files of its entry.
func (in *input) unmetFiles(p *programs.Program) (reason reasons.Reason, detail string) {
	missing := p.Formats() &^ in.choice.Formats
	switch {
	case in.choice.MLDSA && !in.asked:
		return reasons.ProgramNeedsMore, "its TLS library may not support the ML-DSA key that the Service requests, and then it would not start: give the Service a port sc-tls-PORT, or set " + api.AnnotationMode + ": " + string(api.ModeArgs) + " if it does"
	case in.choice.Host != "":
		if missing != 0 || len(p.Files)+len(p.Config) > 0 || p.Mount != "" {
			return reasons.ProgramNeedsMore, "it needs more than tls.crt, tls.key and ca.crt, which are the only files on a node"
		}
	case missing != 0:
		return reasons.ProgramNeedsMore, "set " + reasons.AskFor(missing)
	case in.choice.PodKey != nil && p.RenamesPair():
		return reasons.ProgramNeedsMore, "its files need other names, which a key that a pod makes cannot have: set " + api.AnnotationKeySource + ": " + string(api.KeySourceSecret) + " on the Service"
	case p.PrivateKey && !in.groupCanRead(in.targets):
		return reasons.ProgramNeedsMore, "it rejects a key that all users can read: set fsGroup in the pod's securityContext"
	case len(p.Config) > 0 && !in.hasRoom():
		return reasons.ProgramNeedsMore, "the pod's annotations leave no room for its configuration file: shorten them"
	}
	return "", ""
}

// unless returns what a person must do because of a flag or a variable of the container, or
// "".
func (in *input) unless(c *corev1.Container, p *programs.Program) string {
	if len(p.Unless) == 0 {
		return ""
	}
	for _, t := range commandline.Of(c).Tokens {
		name, _, _ := strings.Cut(t, "=")
		if do := p.Unless[name]; do != "" {
			return do
		}
	}
	for i := range c.Env {
		if do := p.Unless[c.Env[i].Name]; do != "" {
			return do
		}
	}
	return ""
}

// ownCertificate reports whether the program serves TLS with a certificate of its own on its TLSPorts, and
// whether that is certain: only the kubelet may know the value of a variable that turns it off.
func (in *input) ownCertificate(c *corev1.Container, p *programs.Program) (on, sure bool) {
	for _, t := range commandline.Of(c).Tokens {
		name, value, assigned := strings.Cut(t, "=")
		if slices.Contains(p.TLSOff, name) && (!assigned || isTrue(value)) {
			return false, true
		}
	}
	sure = true
	for i := range c.Env {
		switch e := &c.Env[i]; {
		case !slices.Contains(p.TLSOff, e.Name):
		case e.ValueFrom != nil:
			sure = false
		case isTrue(e.Value):
			return false, true
		}
	}
	return len(p.TLSPorts) > 0, sure
}

// isTrue reports whether a flag or variable with the value is on. An empty or unknown value is not.
func isTrue(value string) bool {
	if len(value) > len("false") {
		return false
	}
	on, err := strconv.ParseBool(value)
	return on && err == nil
}

// leavesPort reports whether the program would no longer serve on any port of the Services.
func (in *input) leavesPort(c api.ContainerRef, p *programs.Program) bool {
	ports := tlsPorts(in, []api.ContainerRef{c})
	return len(ports) > 0 && !slices.ContainsFunc(ports, func(port int32) bool { return slices.Contains(p.Ports, port) })
}

// elements returns the elements of the command line for the settings.
func elements(settings []programs.Setting) []string {
	out := make([]string, 0, len(settings)) // most have one
	for _, s := range settings {
		out = append(out, s.Elements...)
	}
	return out
}

// comparison is the difference between a recipe and a container.
type comparison struct {
	// all is true if the container has all of the recipe.
	all bool
	// own is the name of a flag or variable with which the container's owner configures
	// TLS, or empty.
	own string
	// flags and env are missing.
	flags []programs.Setting
	env   []corev1.EnvVar
}

// compare returns what the container has of the recipe.
func (in *input) compare(c *corev1.Container, line commandline.Line, r *recipe) comparison {
	tokens := line.Expanded(func() map[string]string { return in.variables(c) })
	var out comparison
	some := ""
	for _, s := range r.flags {
		found, same := has(tokens, s)
		switch {
		case !found:
			out.flags = append(out.flags, s)
		case !same:
			out.own = s.Name
		case s.Certificate:
			some = s.Name
		}
	}
	for _, v := range r.env {
		switch i := indexEnv(c, v.Name); {
		case i < 0:
			out.env = append(out.env, v)
		case c.Env[i].Value != v.Value || c.Env[i].ValueFrom != nil:
			out.own = v.Name
		case r.certificate[v.Name]:
			some = v.Name
		}
	}
	if out.own == "" {
		out.own = in.ownTLS(c, tokens, r)
	}
	if out.own == "" && r.mount != "" {
		out.own = volume.Occupied(in.pod, c, in.volume, in.settings.MountPath, r.mount)
	}
	out.all = len(out.flags)+len(out.env) == 0 && out.own == "" && (r.mount == "" || volume.Mounted(c, in.volume, r.mount))
	if out.own == "" && !out.all {
		out.own = some // a part of the recipe: its owner has set it
	}
	return out
}

// ownTLS returns a flag, variable or argument outside the recipe with which the container's
// owner configures TLS, or "".
func (in *input) ownTLS(c *corev1.Container, tokens []string, r *recipe) string {
	tells := func(name string) bool {
		return slices.ContainsFunc(r.own, func(o string) bool { return programs.Undashed(o) == name })
	}
	if r.program == nil { // it may read one of our variables, or any known name
		if name := in.otherFiles(c); name != "" {
			return name
		}
		tells = in.table().TakesCertificate
	}
	own := func(name string) bool { return tells(name) && !r.names(name) }
	for _, t := range tokens {
		name, _, assigned := strings.Cut(t, "=")
		if dashed := strings.HasPrefix(t, "-"); (dashed || assigned) && own(programs.Undashed(name)) {
			return programs.Undashed(name)
		}
		for _, o := range r.own {
			if programs.IsPrefix(o) && strings.HasPrefix(t, o) {
				return o
			}
		}
	}
	for _, e := range c.Env {
		if own(e.Name) {
			return e.Name
		}
	}
	return ""
}

// names reports whether a flag or a variable of the recipe has the name.
func (r *recipe) names(name string) bool {
	return slices.ContainsFunc(r.flags, func(s programs.Setting) bool { return s.Name == name }) ||
		slices.ContainsFunc(r.env, func(e corev1.EnvVar) bool { return e.Name == name })
}

// otherFiles returns the name of an injected variable that the container sets to another
// value, or "".
func (in *input) otherFiles(c *corev1.Container) string {
	own := slices.DeleteFunc(ownVariables(c, in.environment()), func(name string) bool { return name == api.EnvCAFile })
	return strings.Join(own[:min(len(own), 1)], "")
}

// has reports whether the tokens have a setting, and whether its value is the same.
func has(tokens []string, s programs.Setting) (found, same bool) {
	for i, t := range tokens {
		name, value, assigned := strings.Cut(t, "=")
		if strings.HasPrefix(t, "-") {
			name = programs.Undashed(name)
		} else if !assigned { // a word without a dash is a setting only with a value
			continue
		}
		if name != s.Name {
			continue
		}
		switch {
		case s.Bare:
			return true, !assigned || value == "true"
		case !assigned && i+1 < len(tokens):
			value = tokens[i+1]
		}
		return true, value == s.Value
	}
	return false, false
}
