package sidecar

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// Port is a port of the Services that requests a proxy.
type Port struct {
	api.ProxyPort
	H2 bool // its clients speak HTTP/2
}

// Targets are the targetPorts of a Service that serve TLS in a pod.
type Targets struct {
	// Asked are those for which the pod gets a proxy, and Own those on which a program of the pod
	// must serve TLS itself.
	Asked []Port
	Own   []intstr.IntOrString
	// Declared are those of Own whose name would request a proxy, but a container declares it.
	Declared []string
}

// TargetsOf returns the Service's targetPorts that serve TLS in a pod. secure are its
// [api.TLSTargets], and reach is that of the pod without its proxy.
func TargetsOf(svc *corev1.Service, secure []intstr.IntOrString, reach api.Reach) Targets {
	var t Targets
	h2 := map[intstr.IntOrString]bool{}
	for _, p := range svc.Spec.Ports {
		if api.SpeaksH2(p) {
			h2[p.TargetPort] = true
		}
	}
	for _, target := range secure {
		p, asks := api.ParseProxyPort(target.StrVal)
		switch {
		case !asks:
			t.Own = append(t.Own, target)
		case reach.Declares(target):
			t.Own = append(t.Own, target)
			t.Declared = append(t.Declared, target.StrVal)
		default:
			t.Asked = append(t.Asked, Port{p, h2[target]})
		}
	}
	return t
}

// Without returns the pod without its proxy, so that a second pass decides like the first: the
// proxy's container and volumes are empty, the names of its ports are not declared, and the hosts
// file does not lead to it. The other containers keep their indexes.
func Without(pod *corev1.Pod) *corev1.Pod {
	proxy, _, ok := proxyOf(pod)
	if !ok {
		return pod
	}
	out := *pod
	out.Spec.InitContainers = slices.Clone(pod.Spec.InitContainers)
	out.Spec.InitContainers[proxy.Index] = corev1.Container{}
	out.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
	mounted := map[string]bool{}
	for _, m := range proxy.VolumeMounts {
		mounted[m.Name] = true
	}
	for i, v := range out.Spec.Volumes {
		if mounted[v.Name] && strings.HasPrefix(v.Name, api.ProxyContainer) {
			out.Spec.Volumes[i] = corev1.Volume{}
		}
	}
	if len(proxy.Connects) > 0 {
		out.Spec.HostAliases = slices.DeleteFunc(slices.Clone(pod.Spec.HostAliases), directed(proxy))
	}
	out.Spec.Containers = slices.Clone(pod.Spec.Containers)
	for i := range out.Spec.Containers {
		c := &out.Spec.Containers[i]
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return isProxyPort(proxy, p) }) {
			c.Ports = slices.DeleteFunc(slices.Clone(c.Ports), func(p corev1.ContainerPort) bool { return isProxyPort(proxy, p) })
		}
	}
	return &out
}

// isProxyPort reports whether the proxy listens on a port that a container declares.
func isProxyPort(proxy api.Proxy, p corev1.ContainerPort) bool {
	return slices.ContainsFunc(proxy.Listeners, func(l api.ProxyListener) bool { return l.Name == p.Name && l.Port == p.ContainerPort })
}
