package mutate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/commandline"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// offer is what one container gets of its recipe.
type offer struct {
	recipe *recipe
	// serves is true if the container is configured to serve TLS with the certificate, now
	// or by an earlier pass.
	serves bool
	// flags and env are what is still missing, and at is the index for the flags in command
	// and args together.
	flags []string
	at    int
	env   []corev1.EnvVar
	// unasked is true if the container gets it without an explicit request.
	unasked bool
	notes   []reasons.Note
}

// placement is a container that gets the files, and its offer.
type placement struct {
	api.ContainerRef
	offer
}

// programsOf returns the programs that are configured to serve TLS.
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
// clear that the container serves: then nothing is added.
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
	if !got.all {
		if reason, detail := in.refusal(c, line, r, got); !allowed || reason != "" {
			return onlyNote(reasons.Note{Reason: reason, Containers: []string{c.Name}, Detail: detail}, allowed)
		}
	}
	o := offer{recipe: r, serves: true, flags: elements(got.flags), env: got.env, at: line.End(), notes: in.notesOf(c, line, r)}
	if r.first {
		o.at = line.Start(in.table().Knows)
	}
	switch {
	case in.askedFor(r), r.program == nil && !in.guesses(): // its owner wrote the flags
		return o
	case r.program == nil:
		o.notes = append(o.notes, reasons.Note{Reason: reasons.UnaskedFlags, Containers: []string{c.Name}, Detail: in.settings.CertFlag + " and " + in.settings.KeyFlag})
	}
	o.unasked = in.choice.Host == "" // what happens to a static pod is not reported
	return o
}

// notesOf returns the notes about a container that gets the recipe.
func (in *input) notesOf(c api.ContainerRef, line commandline.Line, r *recipe) (notes []reasons.Note) {
	if in.insists && r.replaces(line) {
		notes = append(notes, reasons.Note{Reason: reasons.InsistedArgs, Containers: []string{c.Name}})
	}
	if r.program != nil && r.program.Note != "" {
		notes = append(notes, reasons.Note{Reason: reasons.ProgramNote, Containers: []string{c.Name}, Detail: r.program.Name + ": " + in.replace(r.program.Note)})
	}
	if r.unread {
		notes = append(notes, reasons.Note{Reason: reasons.UnknownVersion, Containers: []string{c.Name}, Detail: r.program.Name + ": must be " + r.program.Since + " or newer"})
	}
	return notes
}

// askedFor reports whether the recipe was requested explicitly. A conventional Secret
// requests the flags of an unknown program: it is meant for the servers of Kubernetes,
// which have them.
func (in *input) askedFor(r *recipe) bool {
	return in.asked || r.program == nil && in.choice.By == choose.ByConvention
}

// replaces reports whether the recipe's flags are the container's only arguments and replace
// those of its image.
func (r *recipe) replaces(line commandline.Line) bool {
	given := elements(r.flags)
	return !r.bare && len(given) > 0 && (len(line.Tokens) == 0 || slices.Equal(line.Tokens, given))
}

// onlyNote returns an empty offer, with the note if allowed.
func onlyNote(n reasons.Note, allowed bool) offer {
	if !allowed {
		return offer{}
	}
	return offer{notes: []reasons.Note{n}}
}

// refusal returns why a container does not get the missing part of its recipe, or "".
func (in *input) refusal(c api.ContainerRef, line commandline.Line, r *recipe, got comparison) (reason reasons.Reason, detail string) {
	switch {
	case got.own != "":
		return reasons.FlagAlreadySet, got.own
	case len(got.flags) > 0 && line.IgnoresArguments():
		return reasons.ShellWrapper, ""
	case r.program == nil && !in.askedFor(r) && !in.guesses():
		return reasons.UnknownProgram, ""
	case len(got.flags) > 0 && len(line.Tokens) == 0 && !in.insists && !r.bare:
		return reasons.NoArgs, ""
	case in.askedFor(r):
		return "", ""
	}
	if call := in.plaintextCall(c, r); call != "" {
		return reasons.PlaintextCall, call
	}
	return "", ""
}

// give adds what the container gets of its recipe, except variables.
func give(c api.ContainerRef, o offer, patch *jsonpatch.Patch, report *Report) {
	for _, n := range o.notes {
		report.note(n)
	}
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
		jsonpatch.Insert(patch, jsonpatch.Field(c, "command"), n, o.at, o.flags)
	} else {
		jsonpatch.Insert(patch, jsonpatch.Field(c, "args"), len(c.Args), o.at-n, o.flags)
	}
	if policy := c.TerminationMessagePolicy; o.unasked && (policy == "" || policy == corev1.TerminationMessageReadFile) {
		patch.Add(jsonpatch.Field(c, "terminationMessagePolicy"), corev1.TerminationMessageFallbackToLogsOnError)
	}
}
