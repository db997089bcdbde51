package mutate

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// call is a probe or a hook: a call of the kubelet to a container.
type call struct {
	field string // of the container
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
}

// callsTo returns the container's probes and lifecycle hooks.
func callsTo(c api.ContainerRef) []call {
	var out []call
	probe := func(p *corev1.Probe, name string) {
		if p != nil {
			out = append(out, call{name, p.HTTPGet, p.TCPSocket, p.GRPC})
		}
	}
	probe(c.StartupProbe, "startupProbe")
	probe(c.ReadinessProbe, "readinessProbe")
	probe(c.LivenessProbe, "livenessProbe")
	hook := func(h *corev1.LifecycleHandler, name string) {
		if h != nil {
			out = append(out, call{"lifecycle/" + name, h.HTTPGet, h.TCPSocket, nil})
		}
	}
	if c.Lifecycle != nil {
		hook(c.Lifecycle.PostStart, "postStart")
		hook(c.Lifecycle.PreStop, "preStop")
	}
	return out
}

// secureProbes returns the operations that make HTTP probes and hooks on the pod's TLS
// ports use HTTPS, according to the settings, and notes those that will not work.
func secureProbes(in *input, placed []placement, report *Report) jsonpatch.Patch {
	targets := make([]api.ContainerRef, len(placed))
	for i, p := range placed {
		targets[i] = p.ContainerRef
	}
	ports := tlsPorts(in, targets)
	noteOtherPorts(ports, placed, report)
	var patch jsonpatch.Patch
	for _, c := range in.running {
		all := slices.Concat(ports, alsoPorts(c, placed))
		for _, k := range callsTo(c) {
			var reason reasons.Reason
			switch {
			case k.http != nil && k.http.Host == "" && onPort(c, all, k.http.Port):
				number, _ := portNumber(c.Container, k.http.Port)
				plain := k.http.Scheme != corev1.URISchemeHTTPS
				switch {
				case secures(in, placed, number):
					report.has(c, partProbes)
					if plain {
						patch.Add(jsonpatch.Field(c, k.field+"/httpGet/scheme"), corev1.URISchemeHTTPS)
					}
				case plain && in.settings.HTTPSProbes != api.HTTPSProbesFalse:
					reason = reasons.HTTPProbe
				}
			case k.tcp != nil && k.tcp.Host == "" && onPort(c, ports, k.tcp.Port):
				reason = reasons.TCPProbe
			case k.grpc != nil && slices.Contains(ports, k.grpc.Port):
				reason = reasons.GRPCProbe
			}
			if reason != "" {
				report.note(reasons.Note{Reason: reason, Containers: []string{c.Name}})
			}
		}
	}
	return patch
}

// secures reports whether HTTP probes and hooks on the port use HTTPS.
func secures(in *input, placed []placement, port int32) bool {
	switch in.settings.HTTPSProbes {
	case api.HTTPSProbesTrue:
		return true
	case api.HTTPSProbesFalse:
		return false
	}
	return speaksTLS(in, placed, port)
}

// speaksTLS reports whether the port serves TLS because of an injection: into the container
// that declares the port, or into any if none declares it.
func speaksTLS(in *input, placed []placement, port int32) bool {
	listens := in.listens(port)
	return slices.ContainsFunc(placed, func(p placement) bool { return p.serves && p.servesOn(port) && listens(p.ContainerRef) })
}

// listens returns a function that reports whether a container may listen on the port: it declares the port, or no
// container does.
func (in *input) listens(port int32) func(api.ContainerRef) bool {
	declared := slices.ContainsFunc(in.running, func(c api.ContainerRef) bool { return declares(c, port) })
	return func(c api.ContainerRef) bool { return !declared || declares(c, port) }
}

// servesOn reports whether the container's program serves TLS on the port.
func (p placement) servesOn(port int32) bool {
	program := p.recipe.program
	return program == nil || len(program.Ports) == 0 || slices.Contains(program.Ports, port) || slices.Contains(program.AlsoPorts, port)
}

// alsoPorts returns the ports on which the container's program serves TLS regardless of the
// Services.
func alsoPorts(c api.ContainerRef, placed []placement) []int32 {
	for _, p := range placed {
		if p.Name == c.Name && p.serves && p.recipe.program != nil {
			return p.recipe.program.AlsoPorts
		}
	}
	return nil
}

func declares(c api.ContainerRef, port int32) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port })
}

// noteOtherPorts notes the containers whose program serves TLS, but on none of the ports.
func noteOtherPorts(ports []int32, placed []placement, report *Report) {
	for _, p := range placed {
		if p.serves && len(ports) > 0 && !slices.ContainsFunc(ports, p.servesOn) {
			report.note(reasons.Note{Reason: reasons.OtherPort, Containers: []string{p.Name}, Detail: p.recipe.program.Name + ": port " + numbers(p.recipe.program.Ports) + ", not " + numbers(ports)})
		}
	}
}

func numbers(ports []int32) string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = strconv.Itoa(int(p))
	}
	return reasons.List(out)
}

// onPort reports whether a probe or hook of the container with this port uses one of ports.
func onPort(c api.ContainerRef, ports []int32, port intstr.IntOrString) bool {
	n, ok := portNumber(c.Container, port)
	return ok && slices.Contains(ports, n)
}

// servesTLS reports whether a program serves TLS itself on the port, because of an injection or
// with a certificate of its own.
func (in *input) servesTLS(port int32) bool {
	listens := in.listens(port)
	for _, c := range in.running {
		p := in.programOf(c.Container)
		if p == nil || !slices.Contains(p.TLSPorts, port) || !listens(c) {
			continue
		}
		if on, sure := in.ownCertificate(c.Container, p); on && sure {
			return true
		}
	}
	targets := make([]api.ContainerRef, len(in.placed))
	for i, p := range in.placed {
		targets[i] = p.ContainerRef
	}
	return slices.Contains(tlsPorts(in, targets), port) && speaksTLS(in, in.placed, port)
}
