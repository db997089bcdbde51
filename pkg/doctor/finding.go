package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Finding is a problem that a check found, or that it found none.
type Finding struct {
	ID    ID     `json:"id"`
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// Object is KIND NAME or KIND NAMESPACE/NAME; empty for the whole cluster.
	Object string `json:"object,omitempty"`
	// File and Line are the place in a manifest; empty and 0 in a cluster.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Message describes the problem, and Fix the remedy; each is one line.
	Message string `json:"message"`
	Fix     string `json:"fix"`
	Link    string `json:"link"`

	at       []any // the path in the object, as in preview.Object, for Line
	template bool  // at is in the pod template
}

// Where returns FILE:LINE, or "" in a cluster.
func (f Finding) Where() string {
	if f.File == "" {
		return ""
	}
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// found returns a finding of the check about the object, with the check's own level and
// fix.
func found(id ID, object, format string, args ...any) Finding {
	c := CheckOf(id)
	return Finding{ID: id, Name: c.Name, Level: c.Level, Object: object, Message: fmt.Sprintf(format, args...), Fix: c.Fix, Link: id.Link()}
}

// field returns the finding at the field or annotation that an *api.FieldError names.
func (f Finding) field(err error) Finding {
	var wrong *api.FieldError
	if !errors.As(err, &wrong) {
		return f
	}
	label, isLabel := strings.CutPrefix(wrong.Field, "label ")
	switch {
	case isLabel:
		f.at = []any{"metadata", "labels", label}
	case strings.Contains(wrong.Field, "/"):
		f.at = []any{"metadata", "annotations", wrong.Field}
	default:
		for name := range strings.SplitSeq(wrong.Field, ".") {
			f.at = append(f.at, name)
		}
	}
	return f
}

// annotation returns the finding at an annotation.
func (f Finding) annotation(key string) Finding {
	f.at = []any{"metadata", "annotations", key}
	return f
}

// inTemplate returns the finding in the pod template.
func (f Finding) inTemplate() Finding {
	f.template = true
	return f
}

// do returns the finding with another fix.
func (f Finding) do(format string, args ...any) Finding {
	f.Fix = fmt.Sprintf(format, args...)
	return f
}

// run returns the finding with a command as its fix; names are those of api.CommandText.
func (f Finding) run(names []string, command ...string) Finding {
	return f.do("%s", api.CommandText(names, command...))
}

// as returns the finding with another level.
func (f Finding) as(level Level) Finding {
	f.Level = level
	return f
}

// Report is the outcome of an examination.
type Report struct {
	// Findings are sorted, the worst first. A check that found nothing has one of level OK.
	Findings []Finding `json:"findings"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	// Passed is the number of checks that found nothing.
	Passed int `json:"passed"`
}

// NewReport returns a report of the findings; made lists the checks that were made.
func NewReport(findings []Finding, made []ID) Report {
	r := Report{Findings: slices.Clone(findings)}
	for _, id := range made {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == id }) {
			c := CheckOf(id)
			r.Findings = append(r.Findings, Finding{ID: id, Name: c.Name, Level: OK, Message: c.Looks, Link: id.Link()})
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(worse(a.Level, b.Level), cmp.Compare(a.File, b.File), a.Line-b.Line, cmp.Compare(a.ID, b.ID), cmp.Compare(a.Object, b.Object))
	})
	for _, f := range r.Findings {
		switch f.Level {
		case Error:
			r.Errors++
		case Warning:
			r.Warnings++
		case OK:
			r.Passed++
		case Info:
		}
	}
	return r
}

// Failed reports whether there is an error or, if strict, a warning.
func (r Report) Failed(strict bool) bool { return r.Errors > 0 || strict && r.Warnings > 0 }

// Examined reports whether any check was made that reads objects.
func (r Report) Examined() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return !slices.Contains([]ID{NotLooked, NotOptedIn, Clock}, f.ID) })
}

// AtLeast returns the findings of the level and of worse ones.
func (r Report) AtLeast(level Level) []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return worse(f.Level, level) > 0 })
}
