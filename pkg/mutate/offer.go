package mutate

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
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
	notes []Note
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
	if in.settings.Mode != api.ModeArgs || in.choice.By == ByNothing {
		return offer{}
	}
	r, unmet := in.recipeOf(c)
	if r == nil {
		return onlyNote(unmet, allowed)
	}
	line := commandLineOf(c.Container)
	got := in.compare(c.Container, line, r)
	asked := in.askedFor(r)
	attempt := attemptOf(c.Container, line, r)
	withheld := !asked && in.choice.attempts.Withholds(attempt)
	if !got.all {
		if reason, detail := in.refusal(c, line, r, got, withheld); !allowed || reason != "" {
			o := onlyNote(Note{Reason: reason, Containers: []string{c.Name}, Detail: detail}, allowed)
			if reason == reasonFlagsWithheld {
				o.withheld = attempt
			}
			return o
		}
	}
	o := offer{recipe: r, serves: true, flags: elements(got.flags), env: got.env, at: line.end(), notes: in.notesOf(c, line, r)}
	if r.first {
		o.at = line.start(in.table())
	}
	switch {
	case asked, r.program == nil && !in.choice.guess: // its owner wrote the flags
		return o
	case r.program == nil:
		o.notes = append(o.notes, Note{Reason: reasonUnaskedFlags, Containers: []string{c.Name}, Detail: in.settings.CertFlag + " and " + in.settings.KeyFlag})
	}
	if !withheld { // what is there in spite of the fact cannot be left out
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
func (in *input) notesOf(c api.ContainerRef, line commandLine, r *recipe) (notes []Note) {
	if in.insists && r.replaces(line) {
		notes = append(notes, Note{Reason: reasonInsistedArgs, Containers: []string{c.Name}})
	}
	if r.program != nil && r.program.Note != "" {
		notes = append(notes, Note{Reason: reasonProgramNote, Containers: []string{c.Name}, Detail: r.program.Name + ": " + in.replace(r.program.Note)})
	}
	if r.unread {
		notes = append(notes, Note{Reason: reasonUnknownVersion, Containers: []string{c.Name}, Detail: r.program.Name + ": must be " + r.program.Since + " or newer"})
	}
	return notes
}

// askedFor reports whether the recipe was requested explicitly. A conventional
// Secret asks for the flags of a program that is not known: it is there for the servers of
// Kubernetes, which take them.
func (in *input) askedFor(r *recipe) bool {
	return in.asked || r.program == nil && in.choice.By == ByConvention
}

// replaces reports whether the recipe's flags are all of the container's arguments and take
// the place of those of its image.
func (r *recipe) replaces(line commandLine) bool {
	given := elements(r.flags)
	return !r.bare && len(given) > 0 && (len(line.tokens) == 0 || slices.Equal(line.tokens, given))
}

// onlyNote returns the offer of nothing, with the note if allowed.
func onlyNote(n Note, allowed bool) offer {
	if !allowed {
		return offer{}
	}
	return offer{notes: []Note{n}}
}

// refusal returns why a container that lacks something of its recipe does not get it, or "".
func (in *input) refusal(c api.ContainerRef, line commandLine, r *recipe, got comparison, withheld bool) (reason Reason, detail string) {
	switch {
	case got.own != "":
		return reasonFlagAlreadySet, got.own
	case len(got.flags) > 0 && line.ignoresArguments():
		return reasonShellWrapper, ""
	case r.program == nil && !in.askedFor(r) && !in.choice.guess:
		return reasonUnknownProgram, ""
	case len(got.flags) > 0 && len(line.tokens) == 0 && !in.insists && !r.bare:
		return reasonNoArgs, ""
	case withheld:
		return reasonFlagsWithheld, ""
	}
	if call := in.plaintextCall(c, r); call != "" && !in.askedFor(r) {
		return reasonPlaintextCall, call
	}
	return "", ""
}

// attemptOf returns the name of the attempt to give the container its recipe. It is the same
// whether the container has it already or not.
func attemptOf(c *corev1.Container, line commandLine, r *recipe) string {
	given := elements(r.flags)
	executable, words := line.without(given).runs()
	if r.mount != "" {
		given = append(given, r.mount)
	}
	for _, v := range r.env {
		given = append(given, v.Name+"="+v.Value)
	}
	return api.AttemptOf(programs.Untagged(c.Image), executable, words, given)
}

// give adds what the container gets of its recipe, but for variables.
func give(c api.ContainerRef, o offer, patch *Patch, report *Report) {
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
		insertInto(patch, fieldOf(c, "command"), n, o.at, o.flags)
	} else {
		insertInto(patch, fieldOf(c, "args"), len(c.Args), o.at-n, o.flags)
	}
	if policy := c.TerminationMessagePolicy; o.attempt != "" && (policy == "" || policy == corev1.TerminationMessageReadFile) {
		patch.add(fieldOf(c, "terminationMessagePolicy"), corev1.TerminationMessageFallbackToLogsOnError)
	}
}
