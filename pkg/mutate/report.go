package mutate

import (
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Report says what is injected, and what is skipped and why. It describes the pod as it
// is after the patch, so a second pass reports the same.
type Report struct {
	// Reason is reasonInjected, or why nothing was injected.
	Reason Reason
	By     By
	Trust  bool // the pod asks for the CA bundle
	Secret string
	PodKey bool // the kubelet makes the key; there is no Secret
	// Service is the Service that asks for the Secret and selects the pod; empty if
	// there is none.
	Service string
	// Containers are those that have something injected, in the pod's order.
	Containers []ContainerReport
	Notes      []Note
	// attempts and withheld are those of the containers, by name; see api.AttemptOf. names
	// are api.InjectionStatus.Names.
	attempts, names, withheld map[string]string
}

// ContainerReport says what is injected into a container.
type ContainerReport struct {
	Name  string
	parts []part
	order int
}

// Parts returns what is injected, separated by commas.
func (c ContainerReport) Parts() string {
	parts := make([]string, len(c.parts))
	for i, p := range c.parts {
		parts[i] = string(p)
	}
	return strings.Join(parts, ",")
}

// part is one thing that can be injected into a container.
type part string

// The parts.
const (
	partFiles     part = "files"
	partEnv       part = "env"
	partFlags     part = "flags"
	partVariables part = "variables" // of the program, beside those of partEnv
	partProbes    part = "probes"    // probes or hooks changed to HTTPS

	allParts = 5 // how many there are
)

// Concerned reports whether there is anything to tell the pod's owner. Only then does the
// pod get a status annotation.
func (r Report) Concerned() bool { return !ruleOf(r.Reason).silent || len(r.Notes) > 0 }

// Injected reports whether anything is injected into any container.
func (r Report) Injected() bool { return len(r.Containers) > 0 }

// Reasons returns the report's Reason and those of its notes, sorted, without duplicates.
func (r Report) Reasons() []Reason {
	out := append(make([]Reason, 0, 1+len(r.Notes)), r.Reason)
	for _, n := range r.Notes {
		out = append(out, n.Reason)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// warningPrefix tells a user of kubectl where the warning comes from.
const warningPrefix = "servingcert: "

// Warnings returns the warnings for whoever creates the pod.
func (r Report) Warnings() []string {
	var out []string
	for _, n := range r.Notes {
		if !ruleOf(n.Reason).silent {
			out = append(out, n.after(warningPrefix))
		}
	}
	return out
}

// status returns the value of the status annotation.
func (r Report) status() string {
	status := api.InjectionStatus{Secret: r.Secret, Service: r.Service, Attempts: r.attempts, Names: r.names, Withheld: r.withheld}
	if r.PodKey {
		status.KeySource = api.KeySourcePod
	}
	if r.Reason != reasonInjected {
		status.Reason = string(r.Reason)
	}
	if len(r.Containers) > 0 {
		status.Containers = make(map[string]string, len(r.Containers))
	}
	for _, c := range r.Containers {
		status.Containers[c.Name] = c.Parts()
	}
	for _, n := range r.Notes {
		status.Notes = append(status.Notes, n.after(string(n.Reason)+": "))
	}
	return status.Format()
}

// note adds a note. It joins one with the same reason and detail.
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

// tried adds what the container got, or did not get any more, without an explicit request.
func (r *Report) tried(c api.ContainerRef, o offer) {
	add := func(to *map[string]string, what string) {
		if what == "" {
			return
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[c.Name] = what
	}
	add(&r.attempts, o.attempt)
	add(&r.names, strings.Join(o.names, ","))
	add(&r.withheld, o.withheld)
}

// has adds a part to the report about a container.
func (r *Report) has(c api.ContainerRef, p part) {
	order := c.Index
	if !c.Init {
		order += 1 << 20
	}
	i, found := slices.BinarySearchFunc(r.Containers, order, func(have ContainerReport, order int) int { return have.order - order })
	if !found {
		r.Containers = slices.Insert(r.Containers, i, ContainerReport{Name: c.Name, parts: make([]part, 0, allParts), order: order})
	}
	if !slices.Contains(r.Containers[i].parts, p) {
		r.Containers[i].parts = append(r.Containers[i].parts, p)
	}
}

// Explain returns what was found that led to the report's Reason, as a clause.
func (r Report) Explain() string { return ruleOf(r.Reason).when }
