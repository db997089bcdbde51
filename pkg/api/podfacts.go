package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Why the webhook never injects a pod, regardless of what is in its namespace.
const (
	ExemptMirrorPod = "MirrorPod" // it mirrors a static pod
	ExemptOptedOut  = "OptedOut"  // its label LabelInject is InjectDisabled
	ExemptWindows   = "Windows"   // it runs on Windows nodes
)

// Exempt returns the first of the Exempt reasons that applies to the pod, or "". request
// is the result of ParsePod for the pod.
func Exempt(pod *corev1.Pod, request PodRequest) (reason string) {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirror:
		return ExemptMirrorPod
	case request.OptedOut:
		return ExemptOptedOut
	case pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows,
		pod.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows),
		requiresWindows(pod.Spec.Affinity):
		return ExemptWindows
	}
	return ""
}

// requiresWindows reports whether every term of the node selector allows only Windows nodes. A node
// must match one of the terms; a term without expressions matches no node.
func requiresWindows(affinity *corev1.Affinity) bool {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	found := false
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		switch {
		case slices.ContainsFunc(term.MatchExpressions, onlyWindows):
			found = true
		case len(term.MatchExpressions)+len(term.MatchFields) > 0:
			return false
		}
	}
	return found
}

func onlyWindows(r corev1.NodeSelectorRequirement) bool {
	switch {
	case r.Key != corev1.LabelOSStable:
		return false
	case r.Operator == corev1.NodeSelectorOpIn:
		return len(r.Values) > 0 && !slices.ContainsFunc(r.Values, func(v string) bool { return v != string(corev1.Windows) })
	}
	return r.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(r.Values, string(corev1.Linux))
}

// ContainerRef is a container of a pod and its place in the pod's spec.
type ContainerRef struct {
	*corev1.Container
	Init  bool // in initContainers, not in containers
	Index int  // in its list
}

// RunningContainers returns the containers that run as long as the pod does: its
// native sidecars (init containers that are always restarted), then its containers.
func RunningContainers(pod *corev1.Pod) []ContainerRef {
	refs := make([]ContainerRef, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			refs = append(refs, ContainerRef{c, true, i})
		}
	}
	for i := range pod.Spec.Containers {
		refs = append(refs, ContainerRef{&pod.Spec.Containers[i], false, i})
	}
	return refs
}

// DeclaresPort reports whether any of the RunningContainers declares a port, of any
// protocol.
func DeclaresPort(pod *corev1.Pod) bool {
	return slices.ContainsFunc(RunningContainers(pod), func(c ContainerRef) bool { return len(c.Ports) > 0 })
}

// ownedByJob reports whether a Job owns the pod.
func ownedByJob(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Job" })
}

// helmHook is the annotation that makes Helm run an object at a certain time, such as
// before an upgrade or as a test.
const helmHook = "helm.sh/hook"

// OneShot reports whether the pod runs something to its end: a Job owns it, or it is a
// Helm hook. Such pods often have the labels that a Service selects, but rarely serve.
func OneShot(pod *corev1.Pod) bool {
	_, hook := pod.Annotations[helmHook]
	return hook || ownedByJob(pod)
}
