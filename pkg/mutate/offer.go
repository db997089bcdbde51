package mutate

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/commandline"
	"github.com/servingcert/servingcert/pkg/mutate/podpatch"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/rules"
)

// offer is what one container gets of its recipe.
type offer struct {
	recipe *recipe
	// serves is true if the container is told to serve TLS with the certificate, now or by
	// an earlier pass.
	serves bool
	// flags and env are what is still missing, and at is where the flags belong, as an
	// index into command and then args.
	flags []string
	at    int
	env   []corev1.EnvVar
	// attempt names what the container gets without an explicit request, and
	// withheld what it does not get any more; see api.AttemptOf.
	attempt, withheld string
	// names are those of the attempt's flags and variables that do not lead to the files.
	names []string
	notes []rules.Note
}

// placement is a container that gets the files, and what it gets of its recipe.
type placement struct {
	api.ContainerRef
	offer
}

// programsOf returns the programs that are told to serve TLS.
func programsOf(offers []offer) []*programs.Program {
	var out []*programs.Program
	for _, o := range offers {
		if o.serves && o.recipe.program != nil {
			out = append(out, o.recipe.program)
		}
	}
	return out
}

// offerTo returns what the container gets of its recipe. allowed is false if it is not
// clear that the container serves: then it keeps what it has.
func (in *input) offerTo(c api.ContainerRef, allowed bool) offer {
	if in.settings.Mode != api.ModeArgs || in.choice.By == choose.ByNothing {
		return offer{}
	}
	r, unmet := in.recipeOf(c)
	if r == nil {
		return onlyNote(unmet, allowed)
	}
	line := commandline.Of(c.Container)
	got := in.compare(c.Container, line, r)
	asked := in.askedFor(r)
	attempt := attemptOf(c.Container, line, r)
	withheld := !asked && in.choice.Attempts.Withholds(attempt)
	if !got.all {
		if reason, detail := in.refusal(c, line, r, got, withheld); !allowed || reason != "" {
			o := onlyNote(rules.Note{Reason: reason, Containers: []string{c.Name}, Detail: detail}, allowed)
			if reason == rules.FlagsWithheld {
				o.withheld = attempt
			}
			return o
		}
	}
	o := offer{recipe: r, serves: true, flags: elements(got.flags), env: got.env, at: line.End(), notes: in.notesOf(c, line, r)}
	if r.first {
		o.at = line.Start(in.table().Knows)
	}
	switch {
	case asked, r.program == nil && !in.guesses(): // its owner wrote the flags
		return o
	case r.program == nil:
		o.notes = append(o.notes, rules.Note{Reason: rules.UnaskedFlags, Containers: []string{c.Name}, Detail: in.settings.CertFlag + " and " + in.settings.KeyFlag})
	}
	// What is there in spite of the fact cannot be left out, and nobody undoes what a static pod got.
	if !withheld && in.choice.Host == "" {
		o.attempt, o.names = attempt, r.otherNames(in.settings.MountPath)
	}
	return o
}

// otherNames returns the names of the recipe's flags and variables whose value does not lead
// to the directory, and of its further directory.
func (r *recipe) otherNames(dir string) (names []string) {
	for _, s := range r.flags {
		if !strings.Contains(s.Value, dir) {
			names = append(names, s.Name)
		}
	}
	for _, v := range r.env {
		if !strings.Contains(v.Value, dir) {
			names = append(names, v.Name)
		}
	}
	if r.mount != "" { // what says that a program can do nothing with the files names it
		names = append(names, path.Base(r.mount))
	}
	return names
}

// notesOf returns what is to be known about a container that gets the recipe.
func (in *input) notesOf(c api.ContainerRef, line commandline.Line, r *recipe) (notes []rules.Note) {
	if in.insists && r.replaces(line) {
		notes = append(notes, rules.Note{Reason: rules.InsistedArgs, Containers: []string{c.Name}})
	}
	if r.program != nil && r.program.Note != "" {
		notes = append(notes, rules.Note{Reason: rules.ProgramNote, Containers: []string{c.Name}, Detail: r.program.Name + ": " + in.replace(r.program.Note)})
	}
	if r.unread {
		notes = append(notes, rules.Note{Reason: rules.UnknownVersion, Containers: []string{c.Name}, Detail: r.program.Name + ": must be " + r.program.Since + " or newer"})
	}
	return notes
}

// askedFor reports whether the recipe was requested explicitly. A conventional
// Secret asks for the flags of a program that is not known: it is there for the servers of
// Kubernetes, which take them.
func (in *input) askedFor(r *recipe) bool {
	return in.asked || r.program == nil && in.choice.By == choose.ByConvention
}

// replaces reports whether the recipe's flags are all of the container's arguments and take
// the place of those of its image.
func (r *recipe) replaces(line commandline.Line) bool {
	given := elements(r.flags)
	return !r.bare && len(given) > 0 && (len(line.Tokens) == 0 || slices.Equal(line.Tokens, given))
}

// onlyNote returns the offer of nothing, with the note if allowed.
func onlyNote(n rules.Note, allowed bool) offer {
	if !allowed {
		return offer{}
	}
	return offer{notes: []rules.Note{n}}
}

// refusal returns why a container that lacks something of its recipe does not get it, or "".
func (in *input) refusal(c api.ContainerRef, line commandline.Line, r *recipe, got comparison, withheld bool) (reason rules.Reason, detail string) {
	switch {
	case got.own != "":
		return rules.FlagAlreadySet, got.own
	case len(got.flags) > 0 && line.IgnoresArguments():
		return rules.ShellWrapper, ""
	case r.program == nil && !in.askedFor(r) && !in.guesses():
		return rules.UnknownProgram, ""
	case len(got.flags) > 0 && len(line.Tokens) == 0 && !in.insists && !r.bare:
		return rules.NoArgs, ""
	case withheld:
		return rules.FlagsWithheld, ""
	}
	if call := in.plaintextCall(c, r); call != "" && !in.askedFor(r) {
		return rules.PlaintextCall, call
	}
	return "", ""
}

// attemptOf returns the name of the attempt to give the container its recipe. It is the same
// whether the container has it already or not.
func attemptOf(c *corev1.Container, line commandline.Line, r *recipe) string {
	given := elements(r.flags)
	executable, words := line.Without(given).Runs()
	if r.mount != "" {
		given = append(given, r.mount)
	}
	for _, v := range r.env {
		given = append(given, v.Name+"="+v.Value)
	}
	return api.AttemptOf(programs.Untagged(c.Image), executable, words, given)
}

// give adds what the container gets of its recipe, but for variables.
func give(c api.ContainerRef, o offer, patch *podpatch.Patch, report *Report) {
	for _, n := range o.notes {
		report.note(n)
	}
	report.tried(c, o)
	if !o.serves {
		return
	}
	if len(o.recipe.env) > 0 {
		report.has(c, partVariables)
	}
	if len(o.recipe.flags) > 0 {
		report.has(c, partFlags)
	}
	if n := len(c.Command); o.at < n {
		podpatch.Insert(patch, podpatch.Field(c, "command"), n, o.at, o.flags)
	} else {
		podpatch.Insert(patch, podpatch.Field(c, "args"), len(c.Args), o.at-n, o.flags)
	}
	if policy := c.TerminationMessagePolicy; o.attempt != "" && (policy == "" || policy == corev1.TerminationMessageReadFile) {
		patch.Add(podpatch.Field(c, "terminationMessagePolicy"), corev1.TerminationMessageFallbackToLogsOnError)
	}
}
