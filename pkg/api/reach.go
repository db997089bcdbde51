package api

import (
	"cmp"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Selects reports whether the Service selects the pod. Unlike an empty label selector, a
// Service without a selector selects nothing. A Service that is too large ([CheckSize])
// selects nothing either.
func Selects(svc *corev1.Service, pod *corev1.Pod) bool {
	if CheckSize(svc) != nil {
		return false
	}
	for key, want := range svc.Spec.Selector {
		if value, ok := pod.Labels[key]; !ok || value != want {
			return false
		}
	}
	return len(svc.Spec.Selector) > 0
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
