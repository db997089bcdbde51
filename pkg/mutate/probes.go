package mutate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// check is one place where the kubelet calls a container.
type check struct {
	path []any
	http *corev1.HTTPGetAction
	tcp  *corev1.TCPSocketAction
	grpc *corev1.GRPCAction
}

// checksOf returns the container's probes and lifecycle hooks.
func checksOf(c api.ContainerRef) []check {
	var out []check
	probe := func(p *corev1.Probe, name string) {
		if p != nil {
			out = append(out, check{fieldOf(c, name), p.HTTPGet, p.TCPSocket, p.GRPC})
		}
	}
	probe(c.StartupProbe, "startupProbe")
	probe(c.ReadinessProbe, "readinessProbe")
	probe(c.LivenessProbe, "livenessProbe")
	hook := func(h *corev1.LifecycleHandler, name string) {
		if h != nil {
			out = append(out, check{fieldOf(c, "lifecycle", name), h.HTTPGet, h.TCPSocket, nil})
		}
	}
	if c.Lifecycle != nil {
		hook(c.Lifecycle.PostStart, "postStart")
		hook(c.Lifecycle.PreStop, "preStop")
	}
	return out
}

// secureProbes returns the operations that make HTTP checks on the pod's TLS
// ports HTTPS, if the pod asks for it, and notes what will not work.
func secureProbes(in *input, placed []api.ContainerRef, report *Report) Patch {
	ports := tlsPorts(in, placed)
	var patch Patch
	for _, c := range api.RunningContainers(in.pod) {
		for _, k := range checksOf(c) {
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
				if plain && !in.request.ProbesSaid {
					note.Reason = ReasonHTTPProbe
				}
			case k.tcp != nil && k.tcp.Host == "" && onPort(c, ports, k.tcp.Port):
				note.Reason = ReasonTCPProbe
			case k.grpc != nil && slices.Contains(ports, k.grpc.Port):
				note.Reason = ReasonGRPCProbe
			}
			if note.Reason != "" {
				report.note(note)
			}
		}
	}
	return patch
}

// onPort reports whether a check of the container at port goes to one of ports.
func onPort(c api.ContainerRef, ports []int32, port intstr.IntOrString) bool {
	n, ok := portNumber(c.Container, port)
	return ok && slices.Contains(ports, n)
}
