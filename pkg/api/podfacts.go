package api

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// PortSet is a set of target ports: numbers, and names.
type PortSet map[intstr.IntOrString]bool

// PortSetOf returns the set of the target ports.
func PortSetOf(targets []intstr.IntOrString) PortSet {
	set := make(PortSet, len(targets))
	for _, t := range targets {
		set[t] = true
	}
	return set
}

// DeclaresAny reports whether the container declares one of the target ports, by its
// name or by its number.
func (c ContainerRef) DeclaresAny(targets PortSet) bool {
	for t := range c.declared() {
		if targets[t] {
			return true
		}
	}
	return false
}

// declared yields the container's TCP ports as the target ports that lead to them.
func (c ContainerRef) declared() iter.Seq[intstr.IntOrString] {
	return func(yield func(intstr.IntOrString) bool) {
		for _, p := range c.Ports {
			if cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
				continue
			}
			if !yield(intstr.FromInt32(p.ContainerPort)) || p.Name != "" && !yield(intstr.FromString(p.Name)) {
				return
			}
		}
	}
}

// Reach describes which traffic of Services can reach a pod.
type Reach struct {
	declared PortSet
	oneShot  bool
}

// ReachOf returns the Reach of a pod.
func ReachOf(pod *corev1.Pod) Reach {
	r := Reach{declared: PortSet{}, oneShot: OneShot(pod)}
	for _, c := range RunningContainers(pod) {
		for t := range c.declared() {
			r.declared[t] = true
		}
	}
	return r
}

// Port reports whether traffic for a target port can reach the pod. A container must
// declare a name: otherwise the pod is not an endpoint of that port. A number need not be
// declared, except in a pod that runs to its end ([OneShot]), where nothing else indicates
// that it serves. For a name that requests a proxy ([ParseProxyPort]) and is not declared,
// the program's port decides: the webhook then adds the proxy.
func (r Reach) Port(target intstr.IntOrString) bool {
	if p, asks := proxyTarget(target); asks && !r.declared[target] {
		target = p.UpstreamPort()
	}
	return target.Type == intstr.Int && !r.oneShot || r.declared[target]
}

// Declares reports whether a container of the pod declares the target port.
func (r Reach) Declares(target intstr.IntOrString) bool { return r.declared[target] }

// Serves reports whether traffic for a TLS port of the Service ([TLSTargets]) can reach
// the pod. If the Service has no such port, only a pod that runs to its end does not serve.
func (r Reach) Serves(svc *corev1.Service) bool { return r.ServesAny(TLSTargets(svc)) }

// ServesAny reports whether the pod [Reach.Serves] a Service with these [TLSTargets].
func (r Reach) ServesAny(targets []intstr.IntOrString) bool {
	for _, t := range targets {
		if r.Port(t) {
			return true
		}
	}
	return len(targets) == 0 && !r.oneShot
}
