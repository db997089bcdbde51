package mutate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// call is a probe or a hook: a call of the kubelet to a container.
type call struct {
	path []any
	http *corev1.HTTPGetAction
	tcp  *corev1.TCPSocketAction
	grpc *corev1.GRPCAction
}

// callsTo returns the container's probes and lifecycle hooks.
func callsTo(c api.ContainerRef) []call {
	var out []call
	probe := func(p *corev1.Probe, name string) {
		if p != nil {
			out = append(out, call{fieldOf(c, name), p.HTTPGet, p.TCPSocket, p.GRPC})
		}
	}
	probe(c.StartupProbe, "startupProbe")
	probe(c.ReadinessProbe, "readinessProbe")
	probe(c.LivenessProbe, "livenessProbe")
	hook := func(h *corev1.LifecycleHandler, name string) {
		if h != nil {
			out = append(out, call{fieldOf(c, "lifecycle", name), h.HTTPGet, h.TCPSocket, nil})
		}
	}
	if c.Lifecycle != nil {
		hook(c.Lifecycle.PostStart, "postStart")
		hook(c.Lifecycle.PreStop, "preStop")
	}
	return out
}

// secureProbes returns the operations that make HTTP probes and hooks on the pod's TLS
// ports use HTTPS, if the pod asks for that, and notes what will not work.
func secureProbes(in *input, placed []api.ContainerRef, report *Report) Patch {
	ports := tlsPorts(in, placed)
	var patch Patch
	for _, c := range api.RunningContainers(in.pod) {
		for _, k := range callsTo(c) {
			note := Note{Containers: []string{c.Name}}
			switch {
			case k.http != nil && k.http.Host == "" && onPort(c, ports, k.http.Port):
				plain := k.http.Scheme != corev1.URISchemeHTTPS
				if plain && in.request.HTTPSProbes {
					patch.add(corev1.URISchemeHTTPS, append(k.path, "httpGet", "scheme")...)
				}
				if in.request.HTTPSProbes {
					report.has(c, partProbes)
				}
				if plain && !in.request.HTTPSProbesSet {
					note.Reason = reasonHTTPProbe
				}
			case k.tcp != nil && k.tcp.Host == "" && onPort(c, ports, k.tcp.Port):
				note.Reason = reasonTCPProbe
			case k.grpc != nil && slices.Contains(ports, k.grpc.Port):
				note.Reason = reasonGRPCProbe
			}
			if note.Reason != "" {
				report.note(note)
			}
		}
	}
	return patch
}

// onPort reports whether a probe or hook of the container with this port uses one of ports.
func onPort(c api.ContainerRef, ports []int32, port intstr.IntOrString) bool {
	n, ok := portNumber(c.Container, port)
	return ok && slices.Contains(ports, n)
}
