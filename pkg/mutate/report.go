package mutate

import (
	"encoding/json"
	"slices"
	"strings"
)

// Note is one thing that was not done, or not as might be expected.
type Note struct {
	Reason     Reason
	Containers []string // those that it is about; empty: the whole pod
	Detail     string   // what exactly was found; may be empty
}

// maxDetail bounds what a note repeats of the user's words, so that warnings
// stay below what the API server passes on (256 characters each when many).
const maxDetail = 100

// String returns the note as one line: what was found, what follows, and what
// to do about it.
func (n Note) String() string {
	rule := ruleOf(n.Reason)
	var b strings.Builder
	switch len(n.Containers) {
	case 0:
	case 1:
		b.WriteString("container " + n.Containers[0] + ": ")
	default:
		b.WriteString("containers " + list(n.Containers) + ": ")
	}
	b.WriteString(rule.When)
	if n.Detail != "" {
		b.WriteString(" (" + shorten(n.Detail, maxDetail) + ")")
	}
	b.WriteString(": " + rule.Then)
	if rule.Do != "" {
		b.WriteString("; " + rule.Do)
	}
	return b.String()
}

func shorten(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Report says what was done where, and why not more. It describes the pod as it
// is after the patch, so that a second pass reports the same.
type Report struct {
	// Reason is ReasonInjected, or why nothing was done.
	Reason Reason
	By     By
	Trust  bool // the pod is a client
	Secret string
	// Service asks for the Secret and selects the pod; empty if none does.
	Service string
	// Containers in the pod's order, those that got something.
	Containers []ContainerReport
	Notes      []Note
}

// ContainerReport says what a container has.
type ContainerReport struct {
	Name  string
	Has   []Part
	order int
}

// Part is one thing that a container can have.
type Part string

// The parts.
const (
	PartFiles  Part = "files"
	PartEnv    Part = "env"
	PartFlags  Part = "flags"
	PartProbes Part = "probes" // probes or hooks that became HTTPS
)

// Concerned reports whether the pod is any of our business, or its owner might
// think so: it carries a status then.
func (r Report) Concerned() bool { return !ruleOf(r.Reason).Silent || len(r.Notes) > 0 }

// Injected reports whether any container got anything.
func (r Report) Injected() bool { return len(r.Containers) > 0 }

// Reasons returns the Reason and those of the notes, sorted, without duplicates.
func (r Report) Reasons() []Reason {
	out := []Reason{r.Reason}
	for _, n := range r.Notes {
		out = append(out, n.Reason)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// warningPrefix tells a person at the other end of kubectl who speaks.
const warningPrefix = "servingcert: "

// Warnings returns what the person who creates the pod should see.
func (r Report) Warnings() []string {
	var out []string
	for _, n := range r.Notes {
		if !ruleOf(n.Reason).Silent {
			out = append(out, warningPrefix+n.String())
		}
	}
	return out
}

// Status returns the value of the status annotation.
func (r Report) Status() string {
	status := struct {
		Secret     string            `json:"secret,omitempty"`
		Service    string            `json:"service,omitempty"`
		Containers map[string]string `json:"containers,omitempty"`
		Reason     Reason            `json:"reason,omitempty"` // why nothing was done
		Notes      []string          `json:"notes,omitempty"`
	}{Secret: r.Secret, Service: r.Service}
	if r.Reason != ReasonInjected {
		status.Reason = r.Reason
	}
	if len(r.Containers) > 0 {
		status.Containers = make(map[string]string, len(r.Containers))
	}
	for _, c := range r.Containers {
		parts := make([]string, len(c.Has))
		for i, p := range c.Has {
			parts[i] = string(p)
		}
		status.Containers[c.Name] = strings.Join(parts, ",")
	}
	for _, n := range r.Notes {
		status.Notes = append(status.Notes, string(n.Reason)+": "+n.String())
	}
	data, err := json.Marshal(status)
	if err != nil { // only strings are in it
		panic(err)
	}
	return string(data)
}

// note adds what was found, to a note of the same kind if there is one.
func (r *Report) note(n Note) {
	i := slices.IndexFunc(r.Notes, func(have Note) bool { return have.Reason == n.Reason && have.Detail == n.Detail })
	if i < 0 || len(n.Containers) == 0 {
		r.Notes = append(r.Notes, n)
		return
	}
	for _, c := range n.Containers {
		if !slices.Contains(r.Notes[i].Containers, c) {
			r.Notes[i].Containers = append(r.Notes[i].Containers, c)
		}
	}
}

// has adds a part to what a container has.
func (r *Report) has(c ref, p Part) {
	order := c.index
	if c.list == "containers" {
		order += 1 << 20
	}
	i, found := slices.BinarySearchFunc(r.Containers, order, func(have ContainerReport, order int) int { return have.order - order })
	if !found {
		r.Containers = slices.Insert(r.Containers, i, ContainerReport{Name: c.Name, order: order})
	}
	if !slices.Contains(r.Containers[i].Has, p) {
		r.Containers[i].Has = append(r.Containers[i].Has, p)
	}
}

// Explain returns what was found that led to the Reason.
func (r Report) Explain() string { return ruleOf(r.Reason).When }
