package preview

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// Options are what is known beyond the documents.
type Options struct {
	// Namespace is that of objects without one; "default" if empty.
	Namespace string
	// OpenShift is true if the webhook runs with --openshift-compat, so that Services
	// may ask with OpenShift's annotations too.
	OpenShift bool
	// DefaultMode, TrustSource and Programs are the webhook's; see mutate.Known. A
	// ConfigMap api.ProgramsName in the documents replaces Programs.
	DefaultMode     api.Mode
	UnknownPrograms api.UnknownPrograms
	TrustSource     api.TrustSource
	Programs        *programs.Table
	// Live returns what is known about a namespace in a cluster, and whether it is opted
	// in there. If Live is nil, only the documents count, and a namespace that is not
	// in them is taken to be opted in.
	Live func(ctx context.Context, namespace string) (known mutate.Known, optedIn bool, err error)
}

// translated returns the Service as the webhook reads it.
func (o Options) translated(svc *corev1.Service) *corev1.Service {
	if o.OpenShift {
		return api.Translate(svc)
	}
	return svc
}

// Run returns the documents as the webhook would change them, and what it would do to
// each workload, in order. Everything that does not change keeps its bytes, and so does a
// workload whose Outcome has failed. Run returns an error if there are more than
// MaxObjects, or if asking the cluster fails.
func Run(ctx context.Context, docs []Document, opts Options) ([]Document, []Outcome, error) {
	if opts.Namespace == "" {
		opts.Namespace = metav1.NamespaceDefault
	}
	s := &surroundings{opts: opts, byNamespace: map[string]mutate.Known{}, namespaces: map[string]bool{}, live: map[string]bool{}}
	objects, problems, err := s.gather(docs)
	if err != nil {
		return nil, nil, err
	}
	docs = slices.Clone(docs)
	var outcomes []Outcome
	for i := range docs {
		found, err := s.document(ctx, &docs[i], objects[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", docs[i].name, err)
		}
		for _, o := range slices.Concat(problems[i], found) {
			o.Document = docs[i].name
			outcomes = append(outcomes, o)
		}
	}
	return docs, outcomes, nil
}

// excluded are the namespaces that the webhook's configuration excludes.
var excluded = []string{api.DefaultNamespace, metav1.NamespaceSystem}

// Excluded reports whether the webhook never reviews the pods of a namespace.
func Excluded(namespace string) bool { return slices.Contains(excluded, namespace) }

// document decides about the workloads of one document and changes it.
func (s *surroundings) document(ctx context.Context, doc *Document, found []object) ([]Outcome, error) {
	var outcomes []Outcome
	var target map[string]any
	for _, o := range found {
		workloads, others := workloadsOf(o, s.opts.Namespace)
		for _, w := range workloads {
			outcome := w.Outcome
			if outcome.Problem == nil {
				template, err := s.decide(ctx, w, &outcome)
				if err != nil {
					return nil, err
				}
				if outcome.Changed {
					if target == nil {
						target, _ = clone(doc.object).(map[string]any)
					}
					set(target, slices.Concat(o.at, w.at), template)
				}
			}
			outcomes = append(outcomes, outcome)
		}
		outcomes = append(outcomes, others...)
	}
	if target == nil {
		return outcomes, nil
	}
	changed, err := doc.edited(doc.object, target)
	if err != nil {
		for i := range outcomes {
			if outcomes[i].Changed {
				outcomes[i].Changed, outcomes[i].Problem = false, err
			}
		}
		return outcomes, nil
	}
	doc.chunk, doc.object = changed, target
	return outcomes, nil
}

// decide fills in what the webhook would do to the workload, and returns its template as
// the webhook would change it.
func (s *surroundings) decide(ctx context.Context, w workload, o *Outcome) (template any, err error) {
	known, why, err := s.known(ctx, w.Namespace)
	if err != nil {
		return nil, err
	}
	if o.OptedOut = why; why != "" {
		return nil, nil
	}
	var ops mutate.Patch
	if ops, o.Report, o.Refused = mutate.Mutate(w.pod, known); len(ops) == 0 {
		return nil, nil
	}
	o.Changed = true
	return w.patched(ops)
}

// patched returns the template with the operations on its pod.
func (w workload) patched(patch mutate.Patch) (any, error) {
	if metadata, ok := w.template["metadata"]; !ok || metadata == nil {
		patch = slices.Concat(mutate.Patch{{Op: "add", Path: "/metadata", Value: map[string]any{}}}, patch)
	}
	ops, err := patch.JSON()
	if err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(w.template)
	if err != nil {
		return nil, err
	}
	if raw, err = decoded.Apply(raw); err != nil {
		return nil, err
	}
	return decodeJSON(raw)
}

// surroundings are what the documents say about namespaces, Services and Secrets.
type surroundings struct {
	opts        Options
	byNamespace map[string]mutate.Known
	namespaces  map[string]bool // those in the documents: opted in or not
	live        map[string]bool // those that the cluster was asked about
	programs    *programs.Table // of a ConfigMap in the documents; nil if there is none
}

// gather collects what the documents say, and returns the objects of each, and the
// outcomes of those that cannot be read.
func (s *surroundings) gather(docs []Document) (objects [][]object, problems [][]Outcome, err error) {
	objects, problems = make([][]object, len(docs)), make([][]Outcome, len(docs))
	total := 0
	for i, d := range docs {
		if d.object == nil {
			continue
		}
		found, bad := objectsOf(d.object, s.opts.Namespace)
		if total += len(found) + len(bad); total > MaxObjects {
			return nil, nil, fmt.Errorf("%s: more than %d objects, those in Lists included", d.name, MaxObjects)
		}
		for _, o := range found {
			if err := s.add(o); err != nil {
				bad = append(bad, o.outcome(s.opts.Namespace, err))
			}
		}
		objects[i], problems[i] = found, bad
	}
	return objects, problems, nil
}

// add takes note of a Namespace, a Service, a Secret or the table of programs.
func (s *surroundings) add(o object) error {
	if o.apiVersion != "v1" || !slices.Contains([]string{"Namespace", "Service", "Secret", "ConfigMap"}, o.kind) {
		return nil
	}
	raw, err := json.Marshal(o.content)
	if err != nil {
		return err
	}
	switch o.kind {
	case "Namespace":
		ns := &corev1.Namespace{}
		if err := json.Unmarshal(raw, ns); err != nil {
			return fieldError(err, "")
		}
		s.namespaces[ns.Name] = ns.Labels[api.LabelInject] == api.InjectEnabled
		known := s.byNamespace[ns.Name]
		known.Namespace = map[string]string{} // it says something, if only that nothing is set
		maps.Copy(known.Namespace, ns.Annotations)
		s.byNamespace[ns.Name] = known
	case "Service":
		svc := &corev1.Service{}
		if err := json.Unmarshal(raw, svc); err != nil {
			return fieldError(err, "")
		}
		if svc.Namespace == "" {
			svc.Namespace = s.opts.Namespace
		}
		known := s.byNamespace[svc.Namespace]
		known.Services = append(known.Services, s.opts.translated(svc))
		s.byNamespace[svc.Namespace] = known
	case "Secret":
		s.addSecret(o.content)
	case "ConfigMap":
		return s.addPrograms(o.content, raw)
	}
	return nil
}

// addPrograms takes note of the table of programs, if that is what the ConfigMap is.
func (s *surroundings) addPrograms(object map[string]any, raw []byte) error {
	if dig(object, "metadata", "name") != api.ProgramsName {
		return nil
	}
	cm := &corev1.ConfigMap{}
	if err := json.Unmarshal(raw, cm); err != nil {
		return fieldError(err, "")
	}
	if cm.Namespace == "" {
		cm.Namespace = s.opts.Namespace
	}
	if cm.Namespace != api.DefaultNamespace {
		return nil
	}
	table, err := programs.OfConfigMap(cm)
	if err != nil {
		return err
	}
	s.programs = &table
	return nil
}

func (s *surroundings) addSecret(object map[string]any) {
	name, _ := dig(object, "metadata", "name").(string)
	secretType, _ := object["type"].(string)
	labels := map[string]string{}
	if all, ok := dig(object, "metadata", "labels").(map[string]any); ok {
		for key, value := range all {
			labels[key] = fmt.Sprint(value)
		}
	}
	if !api.IsConventional(name, corev1.SecretType(secretType), labels) {
		return
	}
	namespace, _ := dig(object, "metadata", "namespace").(string)
	if namespace == "" {
		namespace = s.opts.Namespace
	}
	known := s.byNamespace[namespace]
	known.ConventionalSecret = true
	s.byNamespace[namespace] = known
}

// known returns what is known about a namespace, or why the webhook does not review its
// pods.
func (s *surroundings) known(ctx context.Context, namespace string) (known mutate.Known, optedOut string, err error) {
	if Excluded(namespace) {
		return mutate.Known{}, "namespace " + namespace + " is excluded from injection", nil
	}
	optedIn, written := s.namespaces[namespace]
	if s.opts.Live != nil && !s.live[namespace] {
		s.live[namespace] = true
		live, liveOptedIn, err := s.opts.Live(ctx, namespace)
		if err != nil {
			return mutate.Known{}, "", err
		}
		for i, svc := range live.Services {
			live.Services[i] = s.opts.translated(svc)
		}
		s.byNamespace[namespace] = merge(s.byNamespace[namespace], live)
		if !written {
			s.namespaces[namespace], optedIn, written = liveOptedIn, liveOptedIn, true
		}
	}
	if written && !optedIn {
		return mutate.Known{}, "namespace " + namespace + " has no label " + api.LabelInject + "=" + api.InjectEnabled, nil
	}
	known = s.byNamespace[namespace]
	known.DefaultMode, known.UnknownPrograms = s.opts.DefaultMode, s.opts.UnknownPrograms
	known.Programs = cmp.Or(s.programs, s.opts.Programs)
	known.TrustBundle = s.opts.TrustSource == api.TrustFromClusterTrustBundle
	return known, "", nil
}

// newest is the creation time of a Service that does not exist yet: later than any that
// exists.
var newest = metav1.NewTime(time.Unix(1<<40, 0))

// merge adds the documents' Services to those of the cluster. A Service of the same name
// replaces the other and has its creation time.
func merge(written, live mutate.Known) mutate.Known {
	out := mutate.Known{
		ConventionalSecret: written.ConventionalSecret || live.ConventionalSecret,
		Namespace:          written.Namespace, NoPodKeys: live.NoPodKeys,
	}
	if out.Namespace == nil {
		out.Namespace = live.Namespace
	}
	for _, svc := range written.Services {
		svc = svc.DeepCopy()
		i := slices.IndexFunc(live.Services, func(l *corev1.Service) bool { return l.Name == svc.Name })
		switch {
		case i >= 0:
			svc.CreationTimestamp = live.Services[i].CreationTimestamp
		case svc.CreationTimestamp.IsZero():
			svc.CreationTimestamp = newest
		}
		out.Services = append(out.Services, svc)
	}
	for _, l := range live.Services {
		if !slices.ContainsFunc(written.Services, func(w *corev1.Service) bool { return w.Name == l.Name }) {
			out.Services = append(out.Services, l)
		}
	}
	return out
}
