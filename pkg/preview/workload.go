package preview

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// workload is a pod, or a pod template, in an object.
type workload struct {
	Outcome                 // its identity, and the problem if it cannot be read
	at       path           // of the pod or template in the object
	template map[string]any // the decoded pod or template
	pod      *corev1.Pod
}

// templates are the paths of pod templates in the kinds of Kubernetes. A Pod is its own.
var templates = map[string]path{
	"v1 Pod": {}, "v1 PodTemplate": {"template"}, "v1 ReplicationController": {"spec", "template"},
	"apps Deployment": {"spec", "template"}, "apps StatefulSet": {"spec", "template"},
	"apps DaemonSet": {"spec", "template"}, "apps ReplicaSet": {"spec", "template"},
	"batch Job": {"spec", "template"}, "batch CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// workloadsOf returns the workloads in an object, and an Outcome for each place with
// containers that are not in a pod template. namespace is the default namespace.
func workloadsOf(o object, namespace string) (workloads []workload, others []Outcome) {
	group, _, _ := strings.Cut(o.apiVersion, "/")
	if at, ok := templates[group+" "+o.kind]; ok {
		return []workload{newWorkload(o, namespace, at, true)}, nil
	}
	found := finder{}
	found.members(o.content, nil)
	for _, at := range found.templates {
		workloads = append(workloads, newWorkload(o, namespace, at, false))
	}
	for _, at := range found.others {
		outcome := o.outcome(namespace, nil)
		outcome.Path, outcome.NotLookedInto = at.String(), true
		others = append(others, outcome)
	}
	return workloads, others
}

func newWorkload(o object, namespace string, at path, known bool) workload {
	w := workload{Outcome: o.outcome(namespace, nil), at: at}
	w.Template = at
	if !known {
		w.Path = at.String()
	}
	if w.Problem = w.read(o); w.Problem == nil {
		w.Pod = w.pod
	}
	return w
}

// notStatic returns why the workload cannot be a static pod with files on its host, or nil.
func (w workload) notStatic() error {
	switch {
	case w.Kind != "Pod":
		return fmt.Errorf("kind: %s: must be Pod: the kubelet runs only Pods from files", quoted(w.Kind))
	case len(validation.IsDNS1123Subdomain(w.pod.Name)) > 0:
		return fmt.Errorf("metadata.name: %s: must be a valid Pod name: it is the name of the directory with its files", quoted(w.pod.Name))
	}
	return nil
}

// read finds the template and decodes its pod. The error names the field that is wrong.
func (w *workload) read(o object) error {
	if metadata, ok := o.content["metadata"]; ok {
		if _, ok := metadata.(map[string]any); !ok {
			return fmt.Errorf("%v: %s: must be an object with a name", o.at.with("metadata"), quoted(metadata))
		}
	}
	var value any = o.content
	for i, elem := range w.at {
		switch parent := value.(type) {
		case map[string]any:
			name, _ := elem.(string)
			value = parent[name]
		case []any:
			index, _ := elem.(int)
			value = parent[index]
		}
		if _, list := value.([]any); list && i < len(w.at)-1 {
			if _, index := w.at[i+1].(int); index {
				continue
			}
		}
		if _, ok := value.(map[string]any); !ok {
			return fmt.Errorf("%v: %s: must be an object", slices.Concat(o.at, w.at[:i+1]), quoted(value))
		}
	}
	w.template, _ = value.(map[string]any)
	at := slices.Concat(o.at, w.at)
	if err := checkTemplate(w.template, at); err != nil {
		return err
	}
	w.pod = &corev1.Pod{}
	if err := Convert(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": w.template["metadata"], "spec": w.template["spec"]}, w.pod); err != nil {
		return fieldError(err, at.String())
	}
	switch o.kind {
	case "Job", "CronJob", "JobSet": // as the Job controller does
		w.pod.OwnerReferences = append(w.pod.OwnerReferences, metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job"})
	}
	return nil
}

// checkTemplate returns an error if the metadata or the containers of a template are not
// valid for a pod. A template may lack metadata.
func checkTemplate(template map[string]any, at path) error {
	switch metadata := template["metadata"].(type) {
	case nil, map[string]any:
	default:
		return fmt.Errorf("%v: %s: must be an object", at.with("metadata"), quoted(metadata))
	}
	spec, ok := template["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("%v: %s: must be an object with containers", at.with("spec"), quoted(template["spec"]))
	}
	for _, field := range []string{"containers", "initContainers"} {
		value, ok := spec[field]
		if !ok && field == "initContainers" || value == nil && field == "initContainers" {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%v: %s: must be a list of containers", at.with("spec", field), quoted(value))
		}
		for i, c := range list {
			if _, ok := c.(map[string]any); !ok {
				return fmt.Errorf("%v: %s: must be an object with name and image", at.with("spec", field, i), quoted(c))
			}
		}
		if len(list) == 0 && field == "containers" {
			return errors.New(at.with("spec", field).String() + ": is empty: must have a container")
		}
	}
	return nil
}

// finder looks for pod templates in objects of unknown kinds.
type finder struct {
	templates []path
	others    []path // containers that are not in a template
}

// value searches a value. inTemplate is true if it is the value of a member whose name
// contains "template", or an element of it.
func (f *finder) value(value any, at *step, inTemplate bool) {
	switch value := value.(type) {
	case []any:
		for i, v := range value {
			f.value(v, &step{at, i}, inTemplate)
		}
	case map[string]any:
		apiVersion, _ := value["apiVersion"].(string)
		kind, _ := value["kind"].(string)
		switch embedded := apiVersion != "" && kind != "" && kind != "Pod"; {
		case embedded: // another object, whose namespace is unknown
			inner := finder{}
			inner.members(value, at)
			f.others = slices.Concat(f.others, inner.templates, inner.others)
		case inTemplate && isTemplate(value):
			f.templates = append(f.templates, at.path())
		default:
			f.members(value, at)
		}
	}
}

func (f *finder) members(object map[string]any, at *step) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch value := object[name]; {
		case at == nil && (name == "status" || name == "metadata"):
		case hasContainers(name, value):
			f.others = append(f.others, (&step{at, name}).path())
		default:
			f.value(value, &step{at, name}, strings.Contains(strings.ToLower(name), "template"))
		}
	}
}

// step is an element of a path, and the elements before it.
type step struct {
	before *step
	elem   any
}

func (s *step) path() path {
	var out path
	for ; s != nil; s = s.before {
		out = append(out, s.elem)
	}
	slices.Reverse(out)
	return out
}

// isTemplate reports whether a value is a pod template: an object with a spec with
// containers, each with a name and an image.
func isTemplate(value map[string]any) bool {
	if checkTemplate(value, nil) != nil {
		return false
	}
	containers, _ := dig(value, "spec", "containers").([]any)
	return !slices.ContainsFunc(containers, func(c any) bool {
		container, _ := c.(map[string]any)
		name, _ := container["name"].(string)
		image, _ := container["image"].(string)
		return name == "" || image == ""
	})
}

// hasContainers reports whether a member is a container or a list of them.
func hasContainers(name string, value any) bool {
	switch value := value.(type) {
	case []any:
		return (name == "containers" || name == "initContainers") &&
			slices.ContainsFunc(value, func(v any) bool { _, ok := v.(map[string]any); return ok || v == nil })
	case map[string]any:
		_, ok := value["image"].(string)
		return name == "container" && ok
	}
	return false
}
