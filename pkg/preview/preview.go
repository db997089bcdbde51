package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
)

// Options are what is known beyond the documents.
type Options struct {
	// Namespace is that of objects without one; "default" if empty.
	Namespace string
	// OpenShift is true if the webhook runs with --openshift-compat, so that Services
	// may ask with OpenShift's annotations too.
	OpenShift bool
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

// Outcome is what the webhook would do to one workload.
type Outcome struct {
	Kind, Name, Namespace string
	// Refused is why the pod would be denied, or nil.
	Refused error
	// OptedOut is why the webhook would not review the pod; empty if it would.
	OptedOut string
	Report   mutate.Report
	Changed  bool
}

// Run returns the documents as the webhook would change them, and what it would do to
// each workload, in order. Documents that do not change keep their bytes.
func Run(ctx context.Context, docs []Document, opts Options) ([]Document, []Outcome, error) {
	if opts.Namespace == "" {
		opts.Namespace = metav1.NamespaceDefault
	}
	s, err := gather(docs, opts)
	if err != nil {
		return nil, nil, err
	}
	docs = slices.Clone(docs)
	var outcomes []Outcome
	for i := range docs {
		found, err := s.document(ctx, &docs[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", docs[i].name, err)
		}
		outcomes = append(outcomes, found...)
	}
	return docs, outcomes, nil
}

// excluded are the namespaces that the webhook's configuration excludes.
var excluded = []string{api.DefaultNamespace, metav1.NamespaceSystem}

// Excluded reports whether the webhook never reviews the pods of a namespace.
func Excluded(namespace string) bool { return slices.Contains(excluded, namespace) }

// document decides about the workloads of one document and patches it.
func (s *surroundings) document(ctx context.Context, doc *Document) ([]Outcome, error) {
	if doc.object == nil {
		return nil, nil
	}
	workloads, err := workloadsOf(doc.object, s.opts.Namespace)
	if err != nil {
		return nil, err
	}
	var outcomes []Outcome
	var patch mutate.Patch
	for _, w := range workloads {
		o := Outcome{Kind: w.kind, Name: w.name, Namespace: w.namespace}
		known, why, err := s.known(ctx, w.namespace)
		if err != nil {
			return nil, err
		}
		if o.OptedOut = why; why == "" {
			var ops mutate.Patch
			ops, o.Report, o.Refused = mutate.Mutate(w.pod, known)
			o.Changed = len(ops) > 0
			patch = append(patch, moved(ops, w)...)
		}
		outcomes = append(outcomes, o)
	}
	if len(patch) == 0 {
		return outcomes, nil
	}
	return outcomes, doc.apply(patch)
}

// moved returns operations on a pod as operations on the document that contains it.
func moved(patch mutate.Patch, w workload) mutate.Patch {
	prefix := ""
	for _, p := range w.at {
		prefix += "/" + p
	}
	var out mutate.Patch
	if len(patch) > 0 && w.pod.Labels == nil && w.pod.Annotations == nil && string(metadataOf(w)) == "{}" {
		out = append(out, mutate.Operation{Op: "add", Path: prefix + "/metadata", Value: map[string]any{}})
	}
	for _, op := range patch {
		op.Path = prefix + op.Path
		out = append(out, op)
	}
	return out
}

// metadataOf returns the metadata of the pod as it was written.
func metadataOf(w workload) json.RawMessage {
	var pod struct{ Metadata json.RawMessage }
	_ = json.Unmarshal(w.raw, &pod) // it was marshalled here
	return pod.Metadata
}

// apply applies the patch to the document.
func (d *Document) apply(patch mutate.Patch) error {
	ops, err := patch.JSON()
	if err != nil {
		return err
	}
	decoded, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		return err
	}
	object, err := json.Marshal(d.object)
	if err != nil {
		return err
	}
	if object, err = decoded.Apply(object); err != nil {
		return err
	}
	body, err := d.encode(object)
	if err != nil {
		return err
	}
	d.body = body
	return nil
}

// surroundings are what the documents say about namespaces, Services and Secrets.
type surroundings struct {
	opts        Options
	byNamespace map[string]mutate.Known
	namespaces  map[string]bool // those in the documents: opted in or not
	live        map[string]bool // those that the cluster was asked about
}

func gather(docs []Document, opts Options) (*surroundings, error) {
	s := &surroundings{opts: opts, byNamespace: map[string]mutate.Known{}, namespaces: map[string]bool{}, live: map[string]bool{}}
	for _, d := range docs {
		if d.object == nil {
			continue
		}
		if err := eachObject(d.object, nil, s.add); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return s, nil
}

func (s *surroundings) add(object map[string]any, _ []string) error {
	apiVersion, _ := object["apiVersion"].(string)
	if apiVersion != "v1" {
		return nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	switch object["kind"] {
	case "Namespace":
		ns := &corev1.Namespace{}
		if err := json.Unmarshal(raw, ns); err != nil {
			return fmt.Errorf("namespace: %w", err)
		}
		s.namespaces[ns.Name] = ns.Labels[api.LabelInject] == api.InjectEnabled
	case "Service":
		svc := &corev1.Service{}
		if err := json.Unmarshal(raw, svc); err != nil {
			return fmt.Errorf("service: %w", err)
		}
		if svc.Namespace == "" {
			svc.Namespace = s.opts.Namespace
		}
		known := s.byNamespace[svc.Namespace]
		known.Services = append(known.Services, s.opts.translated(svc))
		s.byNamespace[svc.Namespace] = known
	case "Secret":
		s.addSecret(object)
	}
	return nil
}

func (s *surroundings) addSecret(object map[string]any) {
	if dig(object, "metadata", "name") != api.ConventionalSecretName || object["type"] != string(corev1.SecretTypeTLS) {
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
	return s.byNamespace[namespace], "", nil
}

// newest is the creation time of a Service that does not exist yet: later than any that
// exists.
var newest = metav1.NewTime(time.Unix(1<<40, 0))

// merge adds the documents' Services to those of the cluster. A Service of the same name
// replaces the other and has its creation time.
func merge(written, live mutate.Known) mutate.Known {
	out := mutate.Known{ConventionalSecret: written.ConventionalSecret || live.ConventionalSecret}
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
