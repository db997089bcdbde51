package pods

import (
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// unknown is the encoding of the sketch of pods that are not compared with new ones, because their sketch, labels or
// ports are too large.
var unknown = encode(choose.WithoutDrift())

// encode returns the pod in the encoding of the API server, which is the same for equal sketches.
func encode(pod *corev1.Pod) string {
	data, err := pod.Marshal()
	if err != nil {
		return "" // never
	}
	return string(data)
}

// sketchOf returns Template.sketch. It is zero for pods that the webhook leaves alone or rejects.
func sketchOf(pod *corev1.Pod, t *Template) unique.Handle[string] {
	if t.Left != "" || t.Mistake != "" {
		return unique.Handle[string]{}
	}
	if strings.Count(t.Labels, "=") < len(pod.Labels) || len(t.Ports) > maxPorts-longestPort { // the limits have cut them off
		return unique.Make(unknown)
	}
	sketch := choose.Sketch(pod)
	if isNothing(sketch) {
		return unique.Handle[string]{}
	}
	text := encode(sketch)
	if len(text) > maxSketch {
		text = unknown
	}
	return unique.Make(text)
}

// isNothing reports whether a sketch has nothing.
func isNothing(sketch *corev1.Pod) bool {
	s := &sketch.Spec
	return len(sketch.Annotations)+len(s.Containers)+len(s.InitContainers)+len(s.HostAliases) == 0 && s.SecurityContext == nil && s.Hostname == "" && !s.HostNetwork
}

// Client returns a pod with the facts that decide to which Services its proxy connects, as in a new pod, and to which it
// does: choose.Secret and choose.Drift return the same as for the pod itself.
func (f *Facts) Client() *corev1.Pod {
	t := f.Template.Value()
	pod := t.Pod()
	pod.Namespace, pod.Name = f.Namespace, f.Name
	if t.sketch == (unique.Handle[string]{}) {
		return pod
	}
	var sketch corev1.Pod
	if err := sketch.Unmarshal([]byte(t.sketch.Value())); err != nil {
		return pod // never
	}
	spec := &pod.Spec
	pod.Annotations = sketch.Annotations
	spec.InitContainers, spec.Containers = sketch.Spec.InitContainers, append(spec.Containers, sketch.Spec.Containers...)
	spec.HostNetwork, spec.HostAliases, spec.SecurityContext = sketch.Spec.HostNetwork, sketch.Spec.HostAliases, sketch.Spec.SecurityContext
	if sketch.Spec.Hostname != "" {
		spec.Hostname = sketch.Spec.Hostname
	}
	return pod
}
