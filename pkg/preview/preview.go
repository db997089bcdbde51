package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	evanphx "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
)

// Options are the settings of the installation, and access to a cluster.
type Options struct {
	// Namespace is the namespace of objects without one; "default" if empty.
	Namespace string
	// OpenShift is true if the webhook runs with --openshift-compat, so that it supports
	// OpenShift's annotations of Services.
	OpenShift bool
	// Config is the webhook's configuration. A ConfigMap api.ProgramsName in the documents
	// replaces Programs.
	choose.Config
	// Live returns the state of a namespace in a cluster, and whether it is opted in. If Live
	// is nil, only the documents count, and a namespace that is not in them is assumed to be
	// opted in.
	Live func(ctx context.Context, namespace string) (known choose.Known, optedIn bool, err error)
}

// translated returns the Service as the webhook reads it.
func (o Options) translated(svc *corev1.Service) *corev1.Service {
	if o.OpenShift {
		return api.Translate(svc)
	}
	return svc
}

// Run returns the documents with the webhook's changes, and an Outcome for each workload, in
// order. Documents without changes keep their bytes, as do workloads whose Outcome has failed.
// Run returns an error if there are more than MaxObjects, or if Live fails.
func Run(ctx context.Context, docs []Document, opts Options) ([]Document, []Outcome, error) {
	if opts.Namespace == "" {
		opts.Namespace = metav1.NamespaceDefault
	}
	s := &surroundings{opts: opts, byNamespace: map[string]choose.Known{}, namespaces: map[string]bool{}, live: map[string]bool{}}
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

// document computes the outcomes of one document and changes it.
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
	changed, err := doc.edited(target)
	if err != nil {
		for i := range outcomes {
			if outcomes[i].Changed {
				outcomes[i].Changed, outcomes[i].Problem = false, err
			}
		}
		return outcomes, nil
	}
	*doc = changed
	return outcomes, nil
}

// decide fills in the outcome of the workload, and returns its changed template, or nil if it
// does not change.
func (s *surroundings) decide(ctx context.Context, w workload, o *Outcome) (template any, err error) {
	if s.opts.HostFiles != "" {
		if o.Problem = w.notStatic(); o.Problem != nil {
			return nil, nil //nolint:nilerr // the Outcome has it
		}
	}
	known, why, err := s.known(ctx, w.Namespace)
	if err != nil {
		return nil, err
	}
	if o.OptedOut = why; why != "" {
		return nil, nil
	}
	ops, report, refused := mutate.Mutate(w.pod, known)
	if s.failed != nil {
		return nil, s.failed
	}
	if o.Report, o.Refused = report, refused; len(ops) == 0 {
		return nil, nil
	}
	o.Changed = true
	return w.patched(ops)
}

// patched returns the template with the operations on its pod.
func (w workload) patched(patch jsonpatch.Patch) (any, error) {
	if metadata, ok := w.template["metadata"]; !ok || metadata == nil {
		patch = slices.Concat(jsonpatch.Patch{{Op: "add", Path: "/metadata", Value: map[string]any{}}}, patch)
	}
	ops, err := patch.JSON()
	if err != nil {
		return nil, err
	}
	decoded, err := evanphx.DecodePatch(ops)
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
