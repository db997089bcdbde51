package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/preview"
)

// Options are the settings of the installation that manifests do not contain.
type Options struct {
	preview.Options
	// Limits are the signer's limits on requests.
	Limits api.Limits
}

// ErrNothing is the error of Analyze if the documents contain no object: the command that
// should have written them has failed.
var ErrNothing = errors.New("nothing to check: the input contains no Kubernetes object")

// Analyze returns the findings about the objects in the documents, with their files and
// lines. An error is [ErrNothing] or one of [preview.Run].
func Analyze(ctx context.Context, docs []preview.Document, opts Options) (Report, error) {
	if opts.Namespace == "" {
		opts.Namespace = corev1.NamespaceDefault
	}
	_, outcomes, err := preview.Run(ctx, docs, opts.Options)
	if err != nil {
		return Report{}, err
	}
	m := manifests{opts: opts, namespaces: map[string]*Namespace{}, sources: map[string]source{}, contents: map[string]map[string]any{}}
	written := map[string]*document{}
	for _, d := range docs {
		w := &document{Document: d}
		written[d.Name()] = w
		for _, o := range d.Objects(opts.Namespace) {
			m.contents[fmt.Sprint(d.Name(), o.At)] = o.Content
			m.object(w, o)
		}
	}
	if len(m.contents) == 0 {
		return Report{}, ErrNothing
	}
	for _, o := range outcomes {
		m.outcome(written[o.Document], o)
	}
	for _, name := range m.order {
		for _, f := range m.namespaces[name].Findings() {
			m.add(f)
		}
	}
	return NewReport(m.findings, offline()), nil
}

// offline returns the ids of the checks that need no cluster.
func offline() []ID {
	var ids []ID
	for _, c := range checks {
		if c.Offline {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// manifests are the objects of all documents.
type manifests struct {
	opts       Options
	namespaces map[string]*Namespace
	order      []string // the namespaces in the order of the documents
	sources    map[string]source
	contents   map[string]map[string]any // the objects by document and path
	findings   []Finding
}

// document is a document whose lines are counted once, at the first use.
type document struct {
	preview.Document
	lines *preview.Lines
}

func (d *document) line(at []any) int {
	if d.lines == nil {
		lines := d.Lines()
		d.lines = &lines
	}
	return d.lines.Of(at...)
}

// source is the place of an object in a document.
type source struct {
	doc          *document
	at, template []any
}

// in returns the namespace, and creates it if it is new.
func (m *manifests) in(name string) *Namespace {
	if m.namespaces[name] == nil {
		m.namespaces[name] = &Namespace{Name: name, Limits: m.opts.Limits}
		m.order = append(m.order, name)
	}
	return m.namespaces[name]
}

// add adds a finding, with its place in the file.
func (m *manifests) add(f Finding) {
	if s, ok := m.sources[f.Object]; ok {
		at := slices.Clone(s.at)
		if f.template {
			at = append(at, s.template...)
		}
		f.File, f.Line = s.doc.File(), s.doc.line(append(at, f.at...))
	}
	m.findings = append(m.findings, f)
}

// object records a Namespace or a Service, and checks an object that is neither of them
// nor a workload.
func (m *manifests) object(d *document, o preview.Object) {
	if o.APIVersion != "v1" || o.Kind != "Service" && o.Kind != "Namespace" {
		m.other(d, o)
		return
	}
	if o.Kind == "Namespace" {
		ns := &corev1.Namespace{}
		if preview.Convert(o.Content, ns) != nil {
			return // its outcome reports the error
		}
		m.sources["Namespace "+o.Name] = source{doc: d, at: o.At}
		n := m.in(o.Name)
		n.Seen, n.Labels, n.Annotations = true, ns.Labels, ns.Annotations
		return
	}
	svc := &corev1.Service{}
	if preview.Convert(o.Content, svc) != nil {
		return // its outcome reports the error
	}
	svc.Namespace, svc.Name = o.Namespace, o.Name
	if m.opts.OpenShift {
		svc = api.Translate(svc)
	}
	m.sources["Service "+o.Namespace+"/"+o.Name] = source{doc: d, at: o.At}
	n := m.in(o.Namespace)
	n.Services = append(n.Services, svc)
}

// other checks the annotations of an object that requests no certificate. Workloads are checked
// in outcome, and the annotations of Secrets are written by the signer.
func (m *manifests) other(d *document, o preview.Object) {
	annotations := stringsOf(o.Content, "metadata", "annotations")
	place := api.Place(o.Kind)
	switch {
	case o.Kind == "Secret" || o.Kind == api.PodKind || len(annotations) == 0:
		return
	case o.Kind == "ConfigMap" && o.Name == api.CAStatusName:
		place = api.OnCAStatus
	case slices.ContainsFunc(api.BundleTargets(), func(t api.BundleTarget) bool { return t.Kind == o.Kind }):
		place = api.OnTarget
	}
	object := o.Kind + " " + o.Namespace + "/" + o.Name
	m.sources[object] = source{doc: d, at: o.At}
	if hasTemplate(o.Content) {
		return
	}
	for _, f := range unknown(place, object, annotations) {
		m.add(f)
	}
}

// hasTemplate reports whether the object has a pod template at a path that a kind of
// Kubernetes uses.
func hasTemplate(object map[string]any) bool {
	for _, path := range [][]string{{"template"}, {"spec", "template"}, {"spec", "jobTemplate"}} {
		if mapAt(object, path...) != nil {
			return true
		}
	}
	return false
}

// outcome records a workload, and adds the findings about the webhook's result for it.
func (m *manifests) outcome(d *document, o preview.Outcome) {
	w := Workload{Kind: o.Kind, Name: o.Name}
	object := w.object(o.Namespace)
	m.sources[object] = source{d, o.At, o.Template}
	if o.Problem != nil {
		m.add(found(Unreadable, object, "%v", o.Problem))
		return
	}
	if o.NotLookedInto {
		m.add(found(InjectedPart, object, "%s: %s", o.Path, preview.NotLookedInto).as(Info))
		return
	}
	w.Template.ObjectMeta, w.Template.Spec = o.Pod.ObjectMeta, o.Pod.Spec
	if o.Kind != api.PodKind {
		content := m.contents[fmt.Sprint(o.Document, o.At)]
		w.Annotations = stringsOf(content, "metadata", "annotations")
		w.KeepsOldPods = keepsOldPods(o.Kind, content)
		w.Paused, _ = mapAt(content, "spec")["paused"].(bool)
	}
	n := m.in(o.Namespace)
	n.Workloads = append(n.Workloads, w)
	if _, err := api.ParsePod(&w.Template.ObjectMeta); o.Refused != nil && err == nil {
		m.add(found(Refused, object, "%v", o.Refused).inTemplate())
	}
	for _, note := range o.Report.Notes {
		if level := levelOf(note.Reason); level != "" {
			m.add(found(InjectedPart, object, "%s: %s", note.Reason, note).as(level).do("%s", docOf(note.Reason)).inTemplate())
		}
	}
}

// keepsOldPods is api.KeepsOldPods for a manifest; false if the API server would refuse the manifest.
func keepsOldPods(kind string, content map[string]any) bool {
	var workload runtime.Object
	switch kind {
	case "StatefulSet":
		workload = &appsv1.StatefulSet{}
	case "DaemonSet":
		workload = &appsv1.DaemonSet{}
	default:
		return false
	}
	return preview.Convert(content, workload) == nil && api.KeepsOldPods(workload)
}

// levelOf returns the level of a note of the webhook; "" if another check reports the same
// on the object that causes it.
func levelOf(r reasons.Reason) Level {
	switch r {
	case reasons.UnknownAnnotation, reasons.BadSetting, reasons.ServiceRefused, reasons.ImpossibleSecret, reasons.ProxyNotAsked,
		reasons.NoProxyIdentity: // manifests do not show what the cluster has
		return ""
	case reasons.UnknownProgram, reasons.UnknownVersion, reasons.ProgramNote, reasons.UnaskedFlags, reasons.EnvFrom, reasons.InsistedArgs, reasons.FlagAlreadySet:
		return Info
	}
	return Warning
}

// docOf returns a fix that refers to the documentation. The note itself contains the fix.
func docOf(r reasons.Reason) string { return "See reason " + string(r) + " in docs/injection.md." }

// mapAt returns the object at a path, or nil.
func mapAt(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}

// stringsOf returns the members with our prefix of the object at a path. One that is not a
// string is returned as "".
func stringsOf(object map[string]any, path ...string) map[string]string {
	out := map[string]string{}
	for key, value := range mapAt(object, path...) {
		if strings.HasPrefix(key, api.Domain+"/") {
			out[key], _ = value.(string)
		}
	}
	return out
}
