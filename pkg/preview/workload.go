package preview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workload is a pod, or a pod template, in a document.
type workload struct {
	kind, name, namespace string
	at                    []string // the path of the pod or template in the document
	raw                   []byte   // the pod as JSON, as it would be sent to the API server
	pod                   *corev1.Pod
}

// templates are the paths at which objects have a pod template. A Pod is its own
// template.
var templates = [][]string{{}, {"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}, {"template"}}

// workloadsOf returns the workloads in an object, or in the items of a List. namespace is
// that of objects without one.
func workloadsOf(object map[string]any, namespace string) ([]workload, error) {
	var found []workload
	err := eachObject(object, nil, func(o map[string]any, at []string) error {
		kind, _ := o["kind"].(string)
		for _, path := range templates {
			template, ok := dig(o, path...).(map[string]any)
			if !ok || len(path) == 0 && kind != "Pod" {
				continue
			}
			if _, ok := dig(template, "spec", "containers").([]any); !ok {
				continue
			}
			w, err := newWorkload(o, kind, namespace, template)
			if err != nil {
				return err
			}
			w.at = slices.Concat(at, path)
			found = append(found, w)
			return nil
		}
		return nil
	})
	return found, err
}

func newWorkload(owner map[string]any, kind, namespace string, template map[string]any) (workload, error) {
	w := workload{kind: kind, namespace: namespace}
	w.name, _ = dig(owner, "metadata", "name").(string)
	if w.name == "" {
		prefix, _ := dig(owner, "metadata", "generateName").(string)
		w.name = prefix + "*"
	}
	if ns, _ := dig(owner, "metadata", "namespace").(string); ns != "" {
		w.namespace = ns
	}
	meta, ok := template["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
	}
	var err error
	if w.raw, err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}); err != nil {
		return w, err
	}
	w.pod = &corev1.Pod{}
	if err := json.Unmarshal(w.raw, w.pod); err != nil {
		return w, fmt.Errorf("%s %s: %w", kind, w.name, err)
	}
	if kind == "Job" || kind == "CronJob" { // as the Job controller will make its pods
		w.pod.OwnerReferences = append(w.pod.OwnerReferences, metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job"})
	}
	return w, nil
}

// eachObject calls do for an object, or for each item of a List.
func eachObject(object map[string]any, at []string, do func(o map[string]any, at []string) error) error {
	kind, _ := object["kind"].(string)
	items, isList := object["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") {
		return do(object, at)
	}
	for i, item := range items {
		if o, ok := item.(map[string]any); ok {
			if err := eachObject(o, slices.Concat(at, []string{"items", strconv.Itoa(i)}), do); err != nil {
				return err
			}
		}
	}
	return nil
}

// dig returns the value at a path of members, or nil.
func dig(object map[string]any, path ...string) any {
	var value any = object
	for _, p := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[p]
	}
	return value
}
