package mutate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// Report describes what is injected, what is skipped and why. It describes the pod after
// the patch, so a second pass reports the same.
type Report struct {
	// Reason is reasons.Injected, or why nothing, or only the bundle, was injected.
	Reason reasons.Reason
	By     choose.By
	Trust  bool // the pod requests the CA bundle
	Secret string
	PodKey bool // the kubelet makes the key; there is no Secret
	// Service is the Service that requests the Secret and selects the pod; empty if
	// there is none.
	Service string
	// Containers are the injected containers, in the pod's order.
	Containers []ContainerReport
	Notes      []reasons.Note
	startTLS   map[string]string // api.InjectionStatus.StartTLS
	restarts   []string          // api.InjectionStatus.Restarts
}

// ContainerReport describes what is injected into a container.
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
	partVariables part = "variables" // of the program, in addition to partEnv
	partProbes    part = "probes"    // probes or hooks changed to HTTPS
	partProxy     part = "proxy"     // it is the proxy
	partTrust     part = "trust"     // for api.TrustEnv
	partIdentity  part = "identity"  // of the pod, as files and variables
	partConnect   part = "connect"   // it is the proxy, and connects to Services

	allParts = 9 // how many there are
)

// Concerned reports whether there is anything to report to the pod's owner. Only then does
// the pod get a status annotation.
func (r Report) Concerned() bool { return !reasons.Of(r.Reason).Silent || len(r.Notes) > 0 }

// Injected reports whether anything is injected into any container.
func (r Report) Injected() bool { return len(r.Containers) > 0 }

// Reasons returns the report's Reason and those of its notes, sorted, without duplicates.
func (r Report) Reasons() []reasons.Reason {
	out := append(make([]reasons.Reason, 0, 1+len(r.Notes)), r.Reason)
	for _, n := range r.Notes {
		out = append(out, n.Reason)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// warningPrefix shows a user of kubectl where the warning comes from.
const warningPrefix = "servingcert: "

// Warnings returns the warnings for whoever creates the pod.
func (r Report) Warnings() []string {
	var out []string
	for _, n := range r.Notes {
		if !reasons.Of(n.Reason).Silent {
			out = append(out, n.After(warningPrefix))
		}
	}
	return out
}

// status returns the value of the status annotation.
func (r Report) status() string {
	status := api.InjectionStatus{Secret: r.Secret, Service: r.Service, StartTLS: r.startTLS, Restarts: r.restarts}
	if r.PodKey {
		status.KeySource = api.KeySourcePod
	}
	if r.Reason != reasons.Injected {
		status.Reason = string(r.Reason)
	}
	if len(r.Containers) > 0 {
		status.Containers = make(map[string]string, len(r.Containers))
	}
	for _, c := range r.Containers {
		status.Containers[c.Name] = c.Parts()
	}
	for _, n := range r.Notes {
		status.Notes = append(status.Notes, n.After(string(n.Reason)+": "))
	}
	return status.Format()
}

// note adds a note, and merges notes with the same reason and detail.
func (r *Report) note(n reasons.Note) {
	i := slices.IndexFunc(r.Notes, func(have reasons.Note) bool { return have.Reason == n.Reason && have.Detail == n.Detail })
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

// runs adds what is known about the container's program, nil if it is unknown: its STARTTLS protocols, and
// whether it must be restarted for a new certificate.
func (r *Report) runs(c api.ContainerRef, p *programs.Program) {
	if p == nil {
		return
	}
	if p.Reload == programs.ReloadRestart {
		r.restarts = append(r.restarts, c.Name)
	}
	if r.startTLS == nil && len(p.StartTLS) > 0 {
		r.startTLS = map[string]string{}
	}
	for port, protocol := range p.StartTLS {
		r.startTLS[strconv.Itoa(int(port))] = string(protocol)
	}
}

// afterInit is added to the order of containers that are not init containers.
const afterInit = 1 << 20

// shift makes room for an init container before the others up to an index.
func (r *Report) shift(index int) {
	for i := range r.Containers {
		if r.Containers[i].order < index {
			r.Containers[i].order++
		}
	}
}

// has adds a part to the report about a container.
func (r *Report) has(c api.ContainerRef, p part) {
	order := c.Index
	if !c.Init {
		order += afterInit
	}
	i, found := slices.BinarySearchFunc(r.Containers, order, func(have ContainerReport, order int) int { return have.order - order })
	if !found {
		r.Containers = slices.Insert(r.Containers, i, ContainerReport{Name: c.Name, parts: make([]part, 0, allParts), order: order})
	}
	if !slices.Contains(r.Containers[i].parts, p) {
		r.Containers[i].parts = append(r.Containers[i].parts, p)
	}
}

// Explain returns the finding behind the report's Reason, as a clause.
func (r Report) Explain() string { return reasons.Of(r.Reason).When }

// maxAnnotations is the largest total size in bytes of the keys and values of an object's
// annotations (apimachinery, TotalAnnotationSizeLimitB).
const maxAnnotations = 256 << 10

// writeStatus adds the operations on the label and the annotations: those with
// configuration files, and the status.
func writeStatus(in *input, patch jsonpatch.Patch, config map[string]string, report *Report) jsonpatch.Patch {
	meta := &in.pod.ObjectMeta
	have, labelled := meta.Labels[api.LabelInjected]
	switch {
	case report.Injected() && have != "true":
		patch.SetKey(jsonpatch.Labels, len(meta.Labels), api.LabelInjected, "true")
	case !report.Injected() && labelled: // copied from another pod
		patch = append(patch, jsonpatch.Operation{Op: "remove", Path: jsonpatch.Member(jsonpatch.Labels, api.LabelInjected)})
	}
	annotations := map[string]string{api.AnnotationStatus: report.status()}
	if in.choice.Admits != "" {
		annotations[api.AnnotationAdmits] = in.choice.Admits
	}
	for name, content := range config {
		annotations[api.AnnotationFilePrefix+name] = content
	}
	if sizeWith(meta.Annotations, annotations) > maxAnnotations || len(annotations[api.AnnotationStatus]) > api.MaxAnnotation {
		report.note(reasons.Note{Reason: reasons.StatusTooLarge})
		delete(annotations, api.AnnotationStatus)
	}
	maps.DeleteFunc(annotations, func(k, v string) bool { current, ok := meta.Annotations[k]; return ok && current == v })
	if len(meta.Annotations) == 0 && len(annotations) > 0 {
		patch.Add(jsonpatch.Annotations, annotations)
		return patch
	}
	keys := slices.AppendSeq(make([]string, 0, len(annotations)), maps.Keys(annotations)) // most have one
	slices.Sort(keys)
	for _, key := range keys {
		patch.Add(jsonpatch.Member(jsonpatch.Annotations, key), annotations[key])
	}
	return patch
}

// sizeWith returns the size of the annotations in bytes, as the API server counts them, once others are
// added or replaced.
func sizeWith(annotations, added map[string]string) int {
	size := 0
	for key, value := range added {
		size += len(key) + len(value)
	}
	for key, value := range annotations {
		if _, replaced := added[key]; !replaced {
			size += len(key) + len(value)
		}
	}
	return size
}
