package certmanager

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/preview"
)

// Finding is what a person should know of an object.
type Finding struct {
	File                  string
	Line                  int
	Kind, Namespace, Name string
	// Kept: the object stays as it is, because it cannot be converted.
	Kept bool
	Why  string

	doc int // its document, for the order
}

// Object returns the object as KIND NAMESPACE/NAME.
func (f Finding) Object() string {
	if slices.Contains(clusterScoped, f.Kind) {
		return f.Kind + " " + f.Name
	}
	return f.Kind + " " + f.Namespace + "/" + f.Name
}

// clusterScoped are the kinds without a namespace that there are findings of.
var clusterScoped = []string{"Namespace", "CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService", kindClusterIssuer}

// Options are what the manifests do not say.
type Options struct {
	Namespace     string // of objects that do not set one; "" for default
	ClusterDomain string // "" for the signer's default
}

// Result is what Migrate returns.
type Result struct {
	Docs     []preview.Document
	Findings []Finding // in the order of the manifests
	// Converted is how many certificates became annotations.
	Converted int
}

// world is what is known of the manifests, and what is to become of them.
type world struct {
	clusterDomain string
	all           []object
	services      map[types.NamespacedName]object
	headless      map[types.NamespacedName]bool
	certificates  []*certificate
	issuers       map[issuerKey]*issuer
	// roots are the Certificates with the CAs that issuers sign with, if they are self-signed.
	roots map[issuerKey]*certificate
	// isRoot has those of roots.
	isRoot map[*certificate]bool

	pending  map[types.NamespacedName]map[string]string // annotations of Services
	edits    map[int][]func(map[string]any)             // of documents
	without  map[int]bool                               // documents that are left out
	findings []Finding
}

// Migrate returns the manifests for servingcert, and what it cannot convert. It returns an
// error if there are more than [preview.MaxObjects], or a text cannot be changed.
func Migrate(docs []preview.Document, opts Options) (Result, error) {
	w, err := gather(docs, opts)
	if err != nil {
		return Result{}, err
	}
	w.decide()
	out, err := w.apply(docs)
	slices.SortStableFunc(w.findings, func(a, b Finding) int {
		return cmp.Or(a.doc-b.doc, a.Line-b.Line)
	})
	r := Result{Docs: out, Findings: w.findings}
	for _, c := range w.certificates {
		if c.gone && !c.spec.IsCA {
			r.Converted++
		}
	}
	return r, err
}

func gather(docs []preview.Document, opts Options) (*world, error) {
	if opts.Namespace == "" {
		opts.Namespace = "default"
	}
	if opts.ClusterDomain == "" {
		opts.ClusterDomain = api.DefaultLimits().ClusterDomain
	}
	w := &world{
		clusterDomain: opts.ClusterDomain,
		services:      map[types.NamespacedName]object{}, headless: map[types.NamespacedName]bool{}, issuers: map[issuerKey]*issuer{},
		roots: map[issuerKey]*certificate{}, isRoot: map[*certificate]bool{},
		pending: map[types.NamespacedName]map[string]string{}, edits: map[int][]func(map[string]any){}, without: map[int]bool{},
	}
	for i, doc := range docs {
		found := doc.Objects(opts.Namespace)
		if len(found) == 0 {
			continue
		}
		lines := doc.Lines()
		for _, o := range found {
			w.add(object{o, i, doc.File(), lines})
		}
		if len(w.all) > preview.MaxObjects {
			return nil, fmt.Errorf("%s: more than %d objects in all", doc.Name(), preview.MaxObjects)
		}
	}
	w.findRoots()
	return w, nil
}

func (w *world) add(o object) {
	w.all = append(w.all, o)
	switch {
	case o.is(kindCertificate):
		w.certificates = append(w.certificates, o.certificate())
	case o.is(kindIssuer), o.is(kindClusterIssuer):
		i := o.issuer()
		w.issuers[i.issuerKey()] = i
	case o.Kind == "Service" && o.APIVersion == "v1":
		w.services[o.key()] = o
		w.headless[o.key()] = members(o.Content, "spec")["clusterIP"] == "None"
	}
}

// decide decides about all objects. Each step follows from those before it.
func (w *world) decide() {
	for _, c := range w.certificates {
		if !w.isRoot[c] {
			w.convert(c)
		}
	}
	w.leaveOut(func(i *issuer) bool { return i.caSecret != "" })
	for _, c := range w.certificates {
		if w.isRoot[c] {
			w.decideRoot(c)
		}
	}
	w.leaveOut(func(i *issuer) bool { return i.self })
	for _, o := range w.all {
		w.decideObject(o)
	}
	w.optIn()
}

// optIn labels the namespaces of the Services that were annotated, or notes that they need it.
func (w *world) optIn() {
	wanted := map[string]types.NamespacedName{} // a Service of each
	for _, key := range slices.SortedFunc(maps.Keys(w.pending), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		if _, ok := wanted[key.Namespace]; !ok {
			wanted[key.Namespace] = key
		}
	}
	for _, o := range w.all {
		if key, ok := wanted[o.Name]; ok && o.Kind == "Namespace" && o.APIVersion == "v1" {
			delete(wanted, key.Namespace)
			if members(o.Content, "metadata", "labels")[api.LabelInject] != api.InjectEnabled {
				w.edit(o, "labels", map[string]string{api.LabelInject: api.InjectEnabled}, "")
			}
		}
	}
	for _, namespace := range sorted(wanted) {
		w.note(w.services[wanted[namespace]], nil, "namespace %q must have a label, and is not in these manifests: %s", namespace, api.LabelCommand(namespace))
	}
}

// annotate adds annotations to an object, each once.
func (w *world) annotate(o object, annotations map[string]string) {
	if w.pending[o.key()] == nil {
		w.pending[o.key()] = map[string]string{}
	}
	maps.Copy(w.pending[o.key()], annotations)
	w.edit(o, "annotations", maps.Clone(annotations), "")
}

// edit sets members of a map in the object's metadata, and removes one if it is named.
func (w *world) edit(o object, field string, set map[string]string, remove string) {
	w.edits[o.doc] = append(w.edits[o.doc], func(root map[string]any) {
		metadata := child(at(root, o.At), "metadata")
		into := child(metadata, field)
		delete(into, remove)
		for key, value := range set {
			into[key] = value
		}
	})
}

// at returns the object at a path that exists.
func at(root map[string]any, path []any) map[string]any {
	var value any = root
	for _, elem := range path {
		switch elem := elem.(type) {
		case string:
			value = value.(map[string]any)[elem]
		case int:
			value = value.([]any)[elem]
		}
	}
	return value.(map[string]any)
}

// child returns the object that is a member, which is made if there is none.
func child(of map[string]any, name string) map[string]any {
	c, ok := of[name].(map[string]any)
	if !ok {
		c = map[string]any{}
		of[name] = c
	}
	return c
}

// apply returns the documents that stay, changed.
func (w *world) apply(docs []preview.Document) ([]preview.Document, error) {
	out := make([]preview.Document, 0, len(docs))
	for i, doc := range docs {
		if w.without[i] {
			continue
		}
		if edits := w.edits[i]; len(edits) > 0 {
			changed, err := doc.Change(func(root map[string]any) {
				for _, edit := range edits {
					edit(root)
				}
			})
			if err != nil {
				return nil, err
			}
			doc = changed
		}
		out = append(out, doc)
	}
	return out, nil
}

// keep records that an object stays as it is.
func (w *world) keep(o object, path []any, format string, args ...any) {
	w.find(o, path, true, format, args...)
}

// note records what is to be known of an object.
func (w *world) note(o object, path []any, format string, args ...any) {
	w.find(o, path, false, format, args...)
}

func (w *world) find(o object, path []any, kept bool, format string, args ...any) {
	f := Finding{File: o.file, Line: o.line(path...), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Kept: kept, Why: fmt.Sprintf(format, args...), doc: o.doc}
	if len(path) > 0 {
		f.Why = pathOf(path) + ": " + f.Why
	}
	w.findings = append(w.findings, f)
}

// pathOf returns a path as in spec.dnsNames[0].
func pathOf(path []any) string {
	var b strings.Builder
	for i, elem := range path {
		switch elem := elem.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", elem)
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(elem)
		}
	}
	return b.String()
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
