// Package sidecar adds to a pod the proxy that Services request: a native sidecar that terminates TLS
// on its own ports and forwards to ports of the pod's programs; and that connects to the Services
// that the pod lists. It is pure. The proxy itself is package
// [github.com/servingcert/servingcert/pkg/proxy].
//
//	bare := sidecar.Without(pod)
//	asked := sidecar.TargetsOf(service, api.TLSTargets(service), api.ReachOf(bare)).Asked
//	patch, proxy, notes := sidecar.Wanted{Pod: pod, Bare: bare, Ports: asked}.Add(nil)
package sidecar

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// Wanted is the proxy that a pod should have.
type Wanted struct {
	// Pod is the pod, and Bare the result of [Without] for it.
	Pod, Bare *corev1.Pod
	// Ports are the ports that request a proxy.
	Ports []Port
	// Own are the targetPorts on which the pod's programs serve TLS themselves. ServesTLS reports
	// whether a program serves TLS on a port because of an injection.
	Own       []intstr.IntOrString
	ServesTLS func(port int32) bool
	// ProxyProtocol are the ports of programs to which a new listener sends a header of the PROXY
	// protocol.
	ProxyProtocol []int32
	// Connect are the Services to which the proxy connects, and Roots the source of the CA bundle that
	// verifies them. ClusterDomain is the domain of their names.
	Connect       []connect.Target
	Roots         []corev1.VolumeProjection
	ClusterDomain string
	// Identity: the proxy shows the pod's identity to servers. Guarded: it admits only the clients of
	// api.AnnotationAdmits.
	Identity, Guarded bool
	Pair              volume.Pair
	Image             string // may be empty
	// PullSecrets are the names of pull secrets for the image.
	PullSecrets []string
	// Resources are always set on a new proxy. Amounts are set if the pod's containers have any,
	// instead of api.DefaultProxyResources.
	Resources, Amounts corev1.ResourceRequirements
}

// Add appends the operations that add the proxy, or the missing parts of an existing one, and
// returns its container, and notes about ports on which it does not listen. If it has nothing to do,
// there is no container; if a Service requests it, there is at least one note. An existing one always
// connects to what is wanted, and to nothing else.
func (w Wanted) Add(patch jsonpatch.Patch) (jsonpatch.Patch, api.ContainerRef, []reasons.Note) {
	proxy, ends, exists := proxyOf(w.Pod)
	var wanted []api.ProxyListener
	var notes []reasons.Note
	note, refused := w.refuse(proxy, exists)
	switch {
	case refused && !exists:
		return patch, api.ContainerRef{}, []reasons.Note{note}
	case refused:
		notes = []reasons.Note{note}
	default:
		wanted, notes = w.listeners(proxy)
		notes = append(notes, Unused(w.ProxyProtocol, wanted)...)
	}
	if len(wanted) == 0 && len(w.Connect) == 0 {
		return w.disconnect(proxy, patch), api.ContainerRef{}, notes
	}
	patch = w.direct(proxy, patch)
	if exists {
		if len(w.Connect) > 0 && len(proxy.Connects) == 0 {
			proxy, patch = moveFirst(proxy, patch)
		}
		patch = w.extend(proxy, wanted, patch)
		if ends {
			patch.Add(jsonpatch.Field(proxy.ContainerRef, "restartPolicy"), corev1.ContainerRestartPolicyAlways)
		}
	} else {
		patch = w.create(wanted, patch)
		proxy.ContainerRef = api.ContainerRef{Container: &corev1.Container{Name: api.ProxyContainer}, Init: true, Index: len(w.Pod.Spec.InitContainers)}
		if len(w.Connect) > 0 {
			proxy.Index = 0
		}
	}
	return w.declare(wanted, w.pull(patch)), proxy.ContainerRef, notes
}

// proxyOf returns the proxy of the pod, or false if there is none. ends: a webhook that does not
// know native sidecars has removed restartPolicy, so that the proxy is an init container, which
// would have to end.
func proxyOf(pod *corev1.Pod) (proxy api.Proxy, ends, exists bool) {
	if proxy, exists = api.ProxyOf(pod); exists {
		return proxy, false, true
	}
	i := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == api.ProxyContainer && c.RestartPolicy == nil })
	if i < 0 {
		return api.Proxy{}, false, false
	}
	always, out := corev1.ContainerRestartPolicyAlways, *pod
	out.Spec.InitContainers = slices.Clone(pod.Spec.InitContainers)
	out.Spec.InitContainers[i].RestartPolicy = &always
	proxy, exists = api.ProxyOf(&out)
	return proxy, true, exists
}

// Unused returns a note about the ports for which a header of the PROXY protocol was requested but
// no listener sends it; nil if there are none.
func Unused(ports []int32, listeners []api.ProxyListener) []reasons.Note {
	var unused []string
	for _, port := range ports {
		if !slices.ContainsFunc(listeners, func(l api.ProxyListener) bool { return l.V2 && l.Upstream == port }) {
			unused = append(unused, strconv.Itoa(int(port)))
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return []reasons.Note{{Reason: reasons.ProxyProtocolUnused, Detail: reasons.List(unused)}}
}

// refusal is a reason to add no proxy, or not to change an existing one.
type refusal struct {
	reason  reasons.Reason
	applies func(w Wanted, proxy api.Proxy, exists bool) bool
}

var refusals = []refusal{
	{reasons.ProxyHostNetwork, func(w Wanted, _ api.Proxy, _ bool) bool { return w.Bare.Spec.HostNetwork || w.Pair.Host != "" }},
	{reasons.ProxyNameTaken, func(w Wanted, proxy api.Proxy, exists bool) bool {
		if exists {
			return len(w.Ports) > 0 && len(proxy.Listeners) > 0 && !w.servesPair(proxy)
		}
		isNamed := func(c corev1.Container) bool { return c.Name == api.ProxyContainer }
		return slices.ContainsFunc(w.Pod.Spec.InitContainers, isNamed) || slices.ContainsFunc(w.Pod.Spec.Containers, isNamed)
	}},
	{reasons.ProxyNoImage, func(w Wanted, _ api.Proxy, exists bool) bool { return !exists && w.Image == "" }},
}

// refuse returns why no port is added, or false.
func (w Wanted) refuse(proxy api.Proxy, exists bool) (reasons.Note, bool) {
	for _, check := range refusals {
		if check.applies(w, proxy, exists) {
			return reasons.Note{Reason: check.reason}, true
		}
	}
	return reasons.Note{}, false
}

// servesPair reports whether the proxy mounts the pair that was chosen for the pod.
func (w Wanted) servesPair(proxy api.Proxy) bool {
	return slices.ContainsFunc(w.Pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && w.Pair.In(v.Projected.Sources) && volume.Mounted(proxy.Container, v.Name, api.DefaultMountPath)
	})
}
